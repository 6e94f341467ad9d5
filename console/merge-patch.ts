/**
 * JSON merge patches (RFC 7396): what somebody changed, so that it can be sent alone, and laid over
 * what others changed meanwhile.
 */
import { isEqual, mergePatchBetween, touching } from '../shared/schema/diff.ts';
import { isObject, pointerTo, type JsonObject } from '../shared/schema/json-pointer.ts';

/** A name such as `__proto__` is data here. */
export const ownMember = (object: JsonObject, name: string): unknown =>
  Object.hasOwn(object, name) ? object[name] : undefined;

/** The patch that makes `after` of `before`; undefined where they are equal. */
export const patchBetween = (before: JsonObject, after: JsonObject): JsonObject | undefined =>
  isEqual(before, after) ? undefined : (mergePatchBetween(before, after) as JsonObject);

/** The places that a patch changes, as JSON Pointers. */
export const placesIn = (patch: JsonObject, above: readonly string[] = []): string[] =>
  Object.entries(patch).flatMap(([name, change]) => {
    const names = [...above, name];
    const isInner = isObject(change) && Object.keys(change).length > 0;
    return isInner ? placesIn(change, names) : [pointerTo(names)];
  });

/** The places that both change, one inside of the other included. */
export const conflictsOf = (own: readonly string[], theirs: readonly string[]): string[] =>
  own.filter(touching(theirs.map((path) => ({ path }))));

/** A copy with another value of a member, or without the member where the value is undefined. */
export function withMember(document: JsonObject, name: string, value: unknown): JsonObject {
  const members = new Map(Object.entries(document));
  if (value === undefined) members.delete(name);
  else members.set(name, value);
  return Object.fromEntries(members);
}
