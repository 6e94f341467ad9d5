/** For PATCH of every stored document. */
import { isDeepStrictEqual } from 'node:util';

type Members = Readonly<Record<string, unknown>>;

const isPlain = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * JSON Merge Patch (RFC 7396, section 2), without changing its inputs; a member named `__proto__`
 * is data.
 */
export function applyMergePatch(target: unknown, patch: Members): Record<string, unknown>;
export function applyMergePatch(target: unknown, patch: unknown): unknown;
export function applyMergePatch(target: unknown, patch: unknown): unknown {
  if (!isPlain(patch)) return patch;
  const result = new Map(Object.entries(isPlain(target) ? target : {}));
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) result.delete(name);
    else result.set(name, applyMergePatch(result.get(name), value));
  }
  return Object.fromEntries(result);
}

/** The patch that makes `after` of `before`, which holds no null that `before` lacks. */
export function mergePatchBetween(before: unknown, after: unknown): unknown {
  if (!isPlain(after)) return after;
  const was = new Map(Object.entries(isPlain(before) ? before : {}));
  const changed = Object.entries(after).filter(
    ([name, value]) => !was.has(name) || !isDeepStrictEqual(was.get(name), value),
  );
  const removed = [...was.keys()].filter((name) => !Object.hasOwn(after, name));
  return Object.fromEntries([
    ...changed.map(([name, value]) => [name, mergePatchBetween(was.get(name), value)] as const),
    ...removed.map((name) => [name, null] as const),
  ]);
}
