/**
 * JSON merge patches (RFC 7396): what somebody changed, so that it can be sent alone, and laid over
 * what others changed meanwhile.
 */
import { isObject, pointerTo, type JsonObject } from '../shared/schema/json-pointer.ts';

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

/** A name such as `__proto__` is data here. */
export const ownMember = (object: JsonObject, name: string): unknown =>
  Object.hasOwn(object, name) ? object[name] : undefined;

/** The patch that makes `after` of `before`; undefined where they are equal. */
export function patchBetween(before: JsonObject, after: JsonObject): JsonObject | undefined {
  const entries: [string, unknown][] = [];
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const was = ownMember(before, name);
    const is = ownMember(after, name);
    if (!Object.hasOwn(after, name)) entries.push([name, null]);
    else if (isObject(was) && isObject(is)) {
      const inner = patchBetween(was, is);
      if (inner) entries.push([name, inner]);
    } else if (!Object.hasOwn(before, name) || !isEqual(was, is)) entries.push([name, is]);
  }
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

/** The places that a patch changes, as JSON Pointers. */
export const placesIn = (patch: JsonObject, above: readonly string[] = []): string[] =>
  Object.entries(patch).flatMap(([name, change]) => {
    const names = [...above, name];
    const isInner = isObject(change) && Object.keys(change).length > 0;
    return isInner ? placesIn(change, names) : [pointerTo(names)];
  });

/** A place and all that it is in, the whole document included. */
function placesAround(place: string): string[] {
  const names = place.split('/');
  return names.map((_, index) => names.slice(0, index + 1).join('/'));
}

/** The places that both change, one inside of the other included. */
export function conflictsOf(own: readonly string[], theirs: readonly string[]): string[] {
  const places = new Set(theirs);
  const around = new Set(theirs.flatMap(placesAround));
  return own.filter(
    (place) => around.has(place) || placesAround(place).some((each) => places.has(each)),
  );
}

/** A copy with another value of a member, or without the member where the value is undefined. */
export function withMember(document: JsonObject, name: string, value: unknown): JsonObject {
  const members = new Map(Object.entries(document));
  if (value === undefined) members.delete(name);
  else members.set(name, value);
  return Object.fromEntries(members);
}

export interface Difference {
  /** JSON Pointer; empty for the whole. */
  readonly path: string;
  readonly before: unknown;
  readonly after: unknown;
}

/**
 * The places in which two values differ, as deep as both are objects. Undefined is what does not
 * exist.
 */
export function differencesBetween(
  before: unknown,
  after: unknown,
  above: readonly string[] = [],
): Difference[] {
  if (isObject(before) && isObject(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) =>
      differencesBetween(ownMember(before, name), ownMember(after, name), [...above, name]),
    );
  }
  return isEqual(before, after) ? [] : [{ path: pointerTo(above), before, after }];
}
