/**
 * The keys of effective configurations whose meaning Strata knows: their types, which always hold,
 * and their pairs.
 */
import { isDeepStrictEqual } from 'node:util';
import { Type, type TSchema } from 'typebox';
import { AgentConfig } from '../contracts/agents.ts';
import { valueTypes, type ValueType } from '../contracts/bounds.ts';
import { RiskConfig } from '../contracts/risk.ts';
import { instanceValues, ServiceInstance } from '../contracts/service-instances.ts';
import { ServiceType } from '../contracts/service-types.ts';
import type { Problem } from '../errors.ts';
import { pointerTo } from '../schema/json-pointer.ts';
import { settingsTable } from '../settings/settings-table.ts';
import { satisfies, type Limits } from './limits.ts';

/** Settings that the environment's layer holds by their own names, beside the risk defaults. */
export const environmentKeys = [
  'approval_webhook_timeout_seconds',
  'approval_webhook_retry_attempts',
  'approval_webhook_backoff_initial_seconds',
  'approval_webhook_backoff_factor',
  'approval_webhook_backoff_max_seconds',
  'http_client_timeout_seconds',
  'http_client_connect_timeout_seconds',
] as const;

const ofEnvironment = Object.fromEntries(
  environmentKeys.map((key) => {
    const row = settingsTable[key];
    if (row.type !== 'integer') throw new Error(`${key} is not a whole number`);
    return [key, Type.Integer({ minimum: row.min, maximum: row.max })];
  }),
);
const { agent_type: _agentType, ...ofAgents } = AgentConfig.properties;
const { scaling_limits, monitoring_defaults } = ServiceType.properties;

/** By key, the schema of its values. A key that several documents hold means the same in each. */
const schemas: ReadonlyMap<string, TSchema> = new Map<string, TSchema>(
  Object.entries<TSchema>({
    ...ofEnvironment,
    ...ofAgents,
    ...instanceValues(ServiceInstance.properties),
    scaling_limits,
    monitoring_defaults,
    ...RiskConfig.properties.global_settings.properties,
  }),
);

/** What a value of the key has to be; undefined where Strata does not know the key. */
export const schemaOfKey = (key: string): TSchema | undefined => schemas.get(key);

/** By key, the type that its values have. */
export const knownTypes: ReadonlyMap<string, ValueType> = new Map(
  [...schemas].map(([key, schema]) => [key, typeOf(key, schema)]),
);

function typeOf(key: string, schema: TSchema & { readonly type?: unknown }): ValueType {
  const type = valueTypes.find((each) => each === schema.type);
  if (type === undefined) throw new Error(`The schema of ${key} has no type of JSON`);
  return type;
}

/**
 * What is wrong with a value of the key; undefined where nothing is, or Strata does not know the
 * key.
 */
export function typeProblem(key: string, value: unknown): string | undefined {
  const type = knownTypes.get(key);
  return type === undefined || satisfies(value, { type }) ? undefined : `must be ${type}`;
}

/**
 * The values under `path` that give a known key another type, where they differ from `current`:
 * whoever reads them would pass them over, without a word.
 */
export const ofKnownTypes = (
  values: Readonly<Record<string, unknown>>,
  current: Readonly<Record<string, unknown>>,
  path: string,
): Problem[] =>
  Object.entries(values).flatMap(([key, value]) => {
    const message = typeProblem(key, value);
    if (message === undefined || isDeepStrictEqual(value, current[key])) return [];
    return [{ path: `${path}${pointerTo([key])}`, message }];
  });

/** Everything that a known key allows, as far as limits can say it; nothing for other keys. */
export function limitsOfKey(key: string): Limits {
  const type = knownTypes.get(key);
  if (type === undefined) return {};
  const { minimum, maximum }: Pick<Limits, 'minimum' | 'maximum'> = schemas.get(key)!;
  return {
    type,
    ...(minimum !== undefined && { minimum }),
    ...(maximum !== undefined && { maximum }),
  };
}

/** Keys of which the first is never more than the second. */
export const orderedPairs = [
  ['min_instances', 'max_instances'],
  ['max_cost_impact_auto', 'max_cost_impact_approval'],
] as const;
