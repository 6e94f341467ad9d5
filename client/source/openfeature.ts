/** A provider for the server SDK of OpenFeature (https://openfeature.dev): flags are keys, the variant is the layer that decided. */
import {
  FlagNotFoundError,
  GeneralError,
  OpenFeatureEventEmitter,
  ProviderEvents,
  ProviderFatalError,
  ProviderNotReadyError,
  StandardResolutionReasons,
  TypeMismatchError,
  type EvaluationContext,
  type JsonValue,
  type Provider,
  type ResolutionDetails,
} from '@openfeature/server-sdk';
import { isFinal } from './failure.ts';
import { connect } from './index.ts';
import type { Config, ConnectOptions, Context, Details } from './types.ts';

/** Configurations of contexts of evaluations that are kept live. */
const mostContexts = 50;
/** Layers that hold only for what a context names. */
const targeted: readonly unknown[] = ['service_instance', 'agent', 'service_type'];

export class StrataProvider implements Provider {
  readonly metadata = { name: 'strata' } as const;
  readonly runsOn = 'server';
  readonly events = new OpenFeatureEventEmitter();
  readonly #options: ConnectOptions;
  readonly #closing = new AbortController();
  #config: Config | undefined;
  /** By context; the one that was used last is at the end. */
  readonly #others = new Map<string, Promise<Config>>();

  constructor(options: ConnectOptions) {
    this.#options = options;
  }

  async initialize(): Promise<void> {
    const config = await connect({ ...this.#options, signal: this.#closing.signal }).catch(
      (error: Error) => {
        throw isFinal(error) ? new ProviderFatalError(error.message) : error;
      },
    );
    this.#config = config;
    let isStale = config.state.stale;
    if (isStale) this.events.emit(ProviderEvents.Stale);
    config.on('state', ({ stale }) => {
      if (stale === isStale) return;
      isStale = stale;
      this.events.emit(stale ? ProviderEvents.Stale : ProviderEvents.Ready);
    });
    config.on('change', ({ changes }) => {
      const flagsChanged = changes.map(({ key }) => key);
      this.events.emit(ProviderEvents.ConfigurationChanged, { flagsChanged });
    });
  }

  async onClose(): Promise<void> {
    this.#closing.abort();
    this.#others.clear();
    await this.#config?.close();
  }

  resolveBooleanEvaluation(key: string, _fallback: boolean, context: EvaluationContext) {
    return this.#resolve(key, context, (value) => typeof value === 'boolean');
  }

  resolveStringEvaluation(key: string, _fallback: string, context: EvaluationContext) {
    return this.#resolve(key, context, (value) => typeof value === 'string');
  }

  resolveNumberEvaluation(key: string, _fallback: number, context: EvaluationContext) {
    return this.#resolve(key, context, (value) => typeof value === 'number');
  }

  resolveObjectEvaluation<T extends JsonValue>(
    key: string,
    _fallback: T,
    context: EvaluationContext,
  ): Promise<ResolutionDetails<T>> {
    const isObject = (value: unknown): value is T => typeof value === 'object' && value !== null;
    return this.#resolve(key, context, isObject);
  }

  async #resolve<T>(
    key: string,
    context: EvaluationContext,
    fits: (value: unknown) => value is T,
  ): Promise<ResolutionDetails<T>> {
    const asked = contextOf(context);
    const details = (await this.#configOf(asked)).details(key);
    const { value, layer, from } = details;
    if (from === 'fallback') throw new FlagNotFoundError(`There is no value for ${key}.`);
    if (!fits(value)) throw new TypeMismatchError(`The value of ${key} is ${typeOf(value)}.`);
    return {
      value,
      ...(layer === null ? {} : { variant: layer }),
      reason: reasonOf(details, asked !== undefined),
      flagMetadata: metadataOf(details),
    };
  }

  /** The base where an evaluation names nothing, else a configuration of its own, which stays live while it is used. */
  async #configOf(context: Context | undefined): Promise<Config> {
    if (!this.#config) throw new ProviderNotReadyError('The provider was not initialized.');
    if (!context) return this.#config;
    const name = JSON.stringify([context.agentType, context.serviceId, context.serviceType]);
    const opened = this.#others.get(name) ?? this.#config.with(context);
    this.#others.delete(name);
    this.#others.set(name, opened);
    for (const [oldest, config] of this.#others) {
      if (this.#others.size <= mostContexts) break;
      this.#others.delete(oldest);
      void config.then(
        (unused) => unused.close(),
        () => {},
      );
    }
    try {
      return await opened;
    } catch (error) {
      if (this.#others.get(name) === opened) this.#others.delete(name);
      throw new GeneralError(error instanceof Error ? error.message : String(error));
    }
  }
}

/** What an evaluation is for; undefined where it names nothing that Strata knows. */
function contextOf(given: EvaluationContext): Context | undefined {
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

function textIn(given: EvaluationContext, ...names: readonly string[]): string | undefined {
  const texts = names.map((name) => given[name]);
  return texts.find((text): text is string => typeof text === 'string' && text !== '');
}

function reasonOf({ stale, layer }: Details, isNamed: boolean): string {
  if (stale) return StandardResolutionReasons.STALE;
  if (!isNamed) return StandardResolutionReasons.STATIC;
  return targeted.includes(layer)
    ? StandardResolutionReasons.TARGETING_MATCH
    : StandardResolutionReasons.DEFAULT;
}

function metadataOf(details: Details): Record<string, string | number> {
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
