/** The values of one configuration as the gateway answered them, and how they are read. */
import { StrataError } from './failure.ts';
import { deepFreeze, isEqual, isObject, memberOf, type Members } from './json.ts';
import { nearestOf } from './nearest.ts';
import { revisionOf } from './revisions.ts';
import { inCamelCase } from './spelling.ts';
import type {
  Change,
  Details,
  Explanation,
  Get,
  KeyTypes,
  Revision,
  Schema,
  State,
  TypeName,
  View,
} from './types.ts';

export interface Snapshot {
  readonly revision: Revision;
  readonly etag: string | undefined;
  readonly values: Members;
  /** By key, as the gateway says it. */
  readonly explain: Members;
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

/** What is other in `after`, by key. */
export function changesBetween(before: Members, after: Members): Change[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys]
    .map((key) => ({ key, before: memberOf(before, key), after: memberOf(after, key) }))
    .filter((change) => !isEqual(change.before, change.after));
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

/** Where values are read from. */
export interface Source {
  readonly snapshot: Snapshot;
  readonly state: Pick<State, 'stale' | 'ageMs' | 'from'>;
}

const mostMissed = 100;

/**
 * The ways to read values of the types that a schema promises. A value of another type counts as
 * absent.
 */
export function readersOf<V>(
  source: Source,
  types: ReadonlyMap<string, TypeName>,
  warn: (message: string) => void,
): Pick<View<V>, 'get' | 'details' | 'explain'> {
  /** Absent ones that were looked for. */
  const missed = new Set<string>();
  /** A key that is set nowhere is no mistake, one that is nearly called as another may be. */
  function miss(key: string): void {
    if (missed.has(key) || missed.size >= mostMissed) return;
    missed.add(key);
    const nearest = nearestOf(Object.keys(source.snapshot.values), key);
    if (nearest !== undefined)
      warn(`There is no value of ${key}, so the fallback counts. Did you mean ${nearest}?`);
  }

  function get(key: string, fallback?: unknown): unknown {
    const value = memberOf(source.snapshot.values, key);
    const type = types.get(key);
    if (value === undefined) miss(key);
    if (value === undefined || type === undefined || fits(value, type))
      return value === undefined ? fallback : value;
    warn(`The value of ${key} is not of the type ${type}.`);
    return fallback;
  }

  function explain(key: string): Explanation | undefined {
    const explained = memberOf(source.snapshot.explain, key);
    if (!isObject(explained)) return undefined;
    const explanation: object = { value: undefined, shadowed: [], ...inCamelCase(explained) };
    return explanation as Explanation;
  }

  function details(key: string, fallback?: unknown): Details {
    const value = get(key);
    const {
      layer = null,
      source: decidedBy = null,
      revision = null,
      updatedBy = null,
      updatedAt = null,
    }: Partial<Details> = explain(key) ?? {};
    const { stale, ageMs, from } = source.state;
    const isAbsent = value === undefined;
    return {
      value: isAbsent ? fallback : value,
      layer,
      source: decidedBy,
      revision,
      updatedBy,
      updatedAt,
      stale,
      ageMs,
      from: isAbsent ? 'fallback' : from,
    };
  }

  return { get: get as Get<V>, explain, details: details as View<V>['details'] };
}
