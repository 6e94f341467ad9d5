/** Effective values as flags of OpenFeature's Remote Evaluation Protocol. */
import { hash } from 'node:crypto';
import type { Address } from '../../../shared/contracts/effective-config.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import type { Problem } from '../../../shared/errors.ts';
import { pointerToken } from '../../../shared/schema/json-pointer.ts';

type Effective = ResultOf<'config-resolver.resolve'>;
type Flag = ResultOf<'config-resolver.flags.evaluate'>;

/** The members of a context that say what it is for, the first that is there, as `@strata/client`. */
const members = {
  agent_type: ['agentType', 'agent_type'],
  service_id: ['serviceId', 'service_id', 'targetingKey'],
  service_type: ['serviceType', 'service_type'],
} as const;

/** Layers that hold only for what a context names. */
const targeted: readonly string[] = ['service_instance', 'agent', 'service_type'];

/** What a context names, and by which member. */
export interface Named {
  readonly address: Address;
  readonly members: Readonly<Partial<Record<string, string>>>;
}

export function namedBy(context: Readonly<Record<string, unknown>> = {}): Named {
  const found = Object.entries(members).flatMap(([field, names]) => {
    const name = names.find((each) => typeof context[each] === 'string' && context[each] !== '');
    return name === undefined ? [] : [[field, name] as const];
  });
  return {
    address: Object.fromEntries(found.map(([field, name]) => [field, context[name]])),
    members: Object.fromEntries(found),
  };
}

/** Problems of an address, at the members of the context that said it. */
export const inContext = (problems: readonly Problem[], { members: said }: Named): Problem[] =>
  problems.map(({ path, message }) => ({
    path: `/context/${pointerToken(said[path.slice(1)] ?? path.slice(1))}`,
    message,
  }));

/** Undefined where no layer says anything for the key, or a bound removed it. */
export function flagOf(
  key: string,
  effective: Effective,
  { members: said }: Named,
): Flag | undefined {
  const { explain = {}, stale } = effective;
  const found = Object.hasOwn(explain, key) ? explain[key] : undefined;
  if (!found || !('value' in found)) return undefined;
  const { value, layer, source, revision, enforced } = found;
  const isNamed = Object.keys(said).length > 0;
  const ofContext = targeted.includes(layer) ? 'TARGETING_MATCH' : 'DEFAULT';
  const ofValue = isNamed ? ofContext : 'STATIC';
  return {
    key,
    ...(value !== null && { value }),
    reason: stale ? 'STALE' : ofValue,
    variant: layer,
    metadata: {
      layer,
      source,
      ...(revision !== null && { revision }),
      ...(enforced && { enforced: true }),
    },
  };
}

/** Equal tags stand for equal flags: of the layers, only the environment has no revision. */
export function tagOf(
  { revision, environment, stale }: Effective,
  { address }: Named,
): string | null {
  if (stale) return null;
  const { agent_type: agent, service_id: service, service_type: type } = address;
  const context = hash('sha256', JSON.stringify([agent, service, type]), 'base64url');
  return `"${revision.tenant}.${revision.platform}-${environment}-${context.slice(0, 16)}"`;
}
