/** What differs between two documents, for the history, audit events, dry runs and the console. */
import { maxPathLength } from './problem-bounds.ts';
import { isObject, pointerToken, type JsonObject } from './json-pointer.ts';

/** One difference; a side that does not exist is left out. `path` is a JSON Pointer (RFC 6901). */
export interface Difference {
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

/** Of JSON. */
export function isEqual(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((each, index) => isEqual(each, other[index]));
  if (!isObject(one) || !isObject(other)) return false;
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && isEqual(one[name], other[name]))
  );
}

/**
 * The smallest differing members: descends into objects on both sides, takes arrays as a whole.
 * `undefined` is no document. Each member is compared once, and objects whose path is long are told
 * as a whole, so the cost is linear in the size of both sides however deep they are.
 */
export function diff(before: unknown, after: unknown): Difference[] {
  const differences: Difference[] = [];
  // A document that appears or goes is told member by member, an empty one as a whole.
  if (before === undefined && hasMembers(after)) collect({}, after, '', differences);
  else if (after === undefined && hasMembers(before)) collect(before, {}, '', differences);
  else collect(before, after, '', differences);
  return differences;
}

const hasMembers = (value: unknown): value is JsonObject =>
  isObject(value) && Object.keys(value).length > 0;

function collect(before: unknown, after: unknown, path: string, differences: Difference[]): void {
  if (isObject(before) && isObject(after) && path.length <= maxPathLength) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    for (const name of names)
      collect(own(before, name), own(after, name), `${path}/${pointerToken(name)}`, differences);
    return;
  }
  if (isEqual(before, after)) return;
  differences.push({
    path,
    ...(before === undefined ? {} : { before }),
    ...(after === undefined ? {} : { after }),
  });
}

/** The patch that makes `after` of `before`, which holds no null that `before` lacks. */
export function mergePatchBetween(before: unknown, after: unknown): unknown {
  if (!isObject(after)) return after;
  const was = new Map(Object.entries(isObject(before) ? before : {}));
  const changed = Object.entries(after).filter(
    ([name, value]) => !was.has(name) || !isEqual(was.get(name), value),
  );
  const removed = [...was.keys()].filter((name) => !Object.hasOwn(after, name));
  return Object.fromEntries([
    ...changed.map(([name, value]) => [name, mergePatchBetween(was.get(name), value)] as const),
    ...removed.map((name) => [name, null] as const),
  ]);
}

/** The pointers of all that has no members, as differences name them; an empty object is none. */
export function leavesOf(value: unknown, path = ''): string[] {
  if (!isObject(value) || path.length > maxPathLength) return [path];
  return Object.entries(value).flatMap(([name, member]) =>
    leavesOf(member, `${path}/${pointerToken(name)}`),
  );
}

const own = (value: JsonObject, name: string): unknown =>
  Object.hasOwn(value, name) ? value[name] : undefined;

/** The pointers above one, the nearest first; that of the whole is the last. */
export function* ancestorsOf(path: string): Iterable<string> {
  for (let end = path.lastIndexOf('/'); end >= 0; end = path.lastIndexOf('/', end - 1)) {
    yield path.slice(0, end);
    if (end === 0) return;
  }
}

/** Whether a pointer leads to, into or around something that changes. */
export function touching(changes: readonly Pick<Difference, 'path'>[]): (path: string) => boolean {
  const changed = new Set(changes.map(({ path }) => path));
  const around = new Set(changes.flatMap(({ path }) => [...ancestorsOf(path)]));
  return (path) =>
    changed.has(path) ||
    around.has(path) ||
    [...ancestorsOf(path)].some((each) => changed.has(each));
}
