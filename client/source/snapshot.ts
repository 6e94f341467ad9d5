/** The values of one configuration as the gateway answered them, and how they are read. */
import { StrataError } from './failure.ts';
import { revisionOf } from './revisions.ts';
import { inCamelCase } from './spelling.ts';
import type {
  Change,
  Details,
  Explanation,
  Get,
  KeyTypes,
  Origin,
  Revision,
  Schema,
  TypeName,
  View,
} from './types.ts';

type Values = Readonly<Record<string, unknown>>;

export interface Snapshot {
  readonly revision: Revision;
  readonly etag: string | undefined;
  readonly values: Values;
  /** By key, as the gateway says it. */
  readonly explain: Values;
}

/** Throws where `body` is no effective configuration. */
export function snapshotOf(body: unknown, tag: unknown): Snapshot {
  const { revision: given, values, explain = {} } = isObject(body) ? body : {};
  const revision = revisionOf(given);
  if (!revision || !isObject(values) || !isObject(explain))
    throw new StrataError('unexpected_answer', 'What answered is no effective configuration.');
  const etag = typeof tag === 'string' ? tag : undefined;
  return { revision, etag, values: deepFreeze(values), explain: deepFreeze(explain) };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value;
  for (const part of Object.values(value)) deepFreeze(part);
  return Object.freeze(value);
}

/** A member of its own: `__proto__` and `constructor` are keys like others. */
const ownValue = (values: Values, key: string): unknown =>
  Object.hasOwn(values, key) ? values[key] : undefined;

/** What is other in `after`, by key. */
export function changesBetween(before: Values, after: Values): Change[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys]
    .map((key) => ({ key, before: ownValue(before, key), after: ownValue(after, key) }))
    .filter((change) => !isEqual(change.before, change.after));
}

/** Of JSON. The order of members is none of its meaning. */
function isEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const names = Object.keys(a);
  if (names.length !== Object.keys(b).length) return false;
  return names.every(
    (name) =>
      Object.hasOwn(b, name) && isEqual(ownValue(a as Values, name), ownValue(b as Values, name)),
  );
}

/** The types by key of a schema in either of its forms. */
export function typesOf(schema: Schema | undefined): ReadonlyMap<string, TypeName> {
  const types = (isObject(schema?.properties) ? schema.properties : schema) as KeyTypes | undefined;
  return new Map(
    Object.entries(types ?? {}).map(([key, type]) => [
      key,
      typeof type === 'string' ? type : type.type,
    ]),
  );
}

function fits(value: unknown, type: TypeName): boolean {
  switch (type) {
    case 'integer':
      return Number.isInteger(value);
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isObject(value);
    default:
      return typeof value === type;
  }
}

export interface Freshness {
  readonly stale: boolean;
  readonly ageMs: number;
  readonly from: Origin;
}

export interface Reading {
  readonly snapshot: () => Snapshot;
  readonly freshness: () => Freshness;
  readonly types: ReadonlyMap<string, TypeName>;
  readonly warn: (message: string) => void;
}

/** The value of a key; undefined where there is none of the type that the schema promises. */
export function valueOf({ snapshot, types, warn }: Reading, key: string): unknown {
  const value = ownValue(snapshot().values, key);
  const type = types.get(key);
  if (value === undefined || type === undefined || fits(value, type)) return value;
  warn(`The value of ${key} is not of the type ${type} and counts as absent.`);
  return undefined;
}

export function explanationOf({ snapshot }: Reading, key: string): Explanation | undefined {
  const told = ownValue(snapshot().explain, key);
  if (!isObject(told)) return undefined;
  const explanation: object = { value: undefined, shadowed: [], ...inCamelCase(told) };
  return explanation as Explanation;
}

export function detailsOf(reading: Reading, key: string, fallback: unknown): Details {
  const value = valueOf(reading, key);
  const { layer, source, revision, updatedBy, updatedAt } = explanationOf(reading, key) ?? {};
  const { stale, ageMs, from } = reading.freshness();
  return {
    value: value === undefined ? fallback : value,
    layer: layer ?? null,
    source: source ?? null,
    revision: revision ?? null,
    updatedBy: updatedBy ?? null,
    updatedAt: updatedAt ?? null,
    stale,
    ageMs,
    from: value === undefined ? 'fallback' : from,
  };
}

export function viewOf<V>(reading: Reading): View<V> {
  const get = (key: string, fallback?: unknown): unknown => {
    const value = valueOf(reading, key);
    return value === undefined ? fallback : value;
  };
  return {
    get values() {
      return reading.snapshot().values;
    },
    get revision() {
      return reading.snapshot().revision;
    },
    get: get as Get<V>,
    details: <T>(key: string, fallback?: T) =>
      detailsOf(reading, key, fallback) as Details<T | undefined>,
    explain: (key) => explanationOf(reading, key),
  };
}
