/**
 * What both providers of OpenFeature have in common: a key of a configuration as a flag, whose
 * variant is the layer that decided.
 */
import { connect, StrataError } from './index.ts';
import type { Config, ConnectOptions, Context, Details } from './types.ts';

/** Of an evaluation, as both SDKs have it. */
type Attributes = Readonly<Record<string, unknown>>;

/** Layers that hold only for what a context names. */
const targeted: readonly unknown[] = ['service_instance', 'agent', 'service_type'];

/** An error by its code, which is all that the SDKs look at. */
class FlagError extends Error {
  readonly code: 'FLAG_NOT_FOUND' | 'TYPE_MISMATCH' | 'PROVIDER_NOT_READY' | 'PROVIDER_FATAL';

  constructor(code: FlagError['code'], message: string) {
    super(message);
    this.code = code;
  }
}

export const notReady = (): Error =>
  new FlagError('PROVIDER_NOT_READY', 'The provider was not initialized.');

/** Throws what trying again can't mend with the code that says so. */
export async function open(options: ConnectOptions): Promise<Config> {
  try {
    return await connect(options);
  } catch (error) {
    const isFatal = error instanceof StrataError && error.isFinal;
    throw isFatal ? new FlagError('PROVIDER_FATAL', error.message) : error;
  }
}

/** What an evaluation is for; undefined where it names nothing that Strata knows. */
export function contextOf(given: Attributes = {}): Context | undefined {
  const agentType = textIn(given, 'agentType', 'agent_type');
  const serviceId = textIn(given, 'serviceId', 'service_id', 'targetingKey');
  const serviceType = textIn(given, 'serviceType', 'service_type');
  if (agentType === undefined && serviceId === undefined && serviceType === undefined)
    return undefined;
  return {
    ...(agentType === undefined ? {} : { agentType }),
    ...(serviceId === undefined ? {} : { serviceId }),
    ...(serviceType === undefined ? {} : { serviceType }),
  };
}

/** The same for the same context. */
export const nameOf = (context: Context | undefined): string =>
  JSON.stringify([context?.agentType, context?.serviceId, context?.serviceType]);

function textIn(given: Attributes, ...names: readonly string[]): string | undefined {
  const texts = names.map((name) => given[name]);
  return texts.find((text): text is string => typeof text === 'string' && text !== '');
}

export interface Resolution<T> {
  readonly value: T;
  readonly variant?: string;
  readonly reason: 'STALE' | 'STATIC' | 'TARGETING_MATCH' | 'DEFAULT';
  readonly flagMetadata: Record<string, string | number>;
}

/**
 * A flag as the SDKs want it. `isNamed` where the configuration is that of a context of the
 * evaluation. Throws what has a code.
 */
export function resolve<T>(
  config: Config,
  key: string,
  isNamed: boolean,
  type: 'boolean' | 'string' | 'number' | 'object',
): Resolution<T> {
  const details = config.details(key);
  const { value, layer, from } = details;
  if (from === 'fallback') throw new FlagError('FLAG_NOT_FOUND', `There is no value for ${key}.`);
  if (typeof value !== type || value === null)
    throw new FlagError('TYPE_MISMATCH', `The value of ${key} is ${typeOf(value)}.`);
  return {
    value: value as T,
    ...(layer === null ? {} : { variant: layer }),
    reason: reasonOf(details, isNamed),
    flagMetadata: metadataOf(details),
  };
}

function reasonOf({ stale, layer }: Details, isNamed: boolean): Resolution<unknown>['reason'] {
  if (stale) return 'STALE';
  if (!isNamed) return 'STATIC';
  return targeted.includes(layer) ? 'TARGETING_MATCH' : 'DEFAULT';
}

function metadataOf(details: Details): Resolution<unknown>['flagMetadata'] {
  const { source, revision, updatedBy, updatedAt } = details;
  const given = { source, revision, updated_by: updatedBy, updated_at: updatedAt };
  return Object.fromEntries(
    Object.entries(given).filter((entry): entry is [string, string | number] => entry[1] !== null),
  );
}

const typeOf = (value: unknown): string => {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
};

interface Listeners {
  readonly onStale: () => void;
  readonly onFresh: () => void;
  readonly onChanged: (flagsChanged: string[]) => void;
}

/**
 * Tells what becomes of a configuration. SDKs take a provider for fresh once its start, or its
 * change of context, has resolved, whatever it said before: that it is stale is told after that.
 * Returns how to stop that.
 */
export function follow(config: Config, { onStale, onFresh, onChanged }: Listeners): () => void {
  let isStale = false;
  const reportStaleness = (): void => {
    const { stale } = config.state;
    if (stale === isStale) return;
    isStale = stale;
    if (stale) onStale();
    else onFresh();
  };
  const stops = [config.on('change', ({ changes }) => onChanged(changes.map(({ key }) => key)))];
  const begin = setTimeout(() => {
    stops.push(config.on('state', reportStaleness));
    reportStaleness();
  });
  return () => {
    clearTimeout(begin);
    for (const stop of stops) stop();
  };
}
