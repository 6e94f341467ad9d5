/** For PATCH of every stored document. */
import { isObject, type JsonObject } from './json-pointer.ts';

/**
 * JSON Merge Patch (RFC 7396, section 2), without changing its inputs; a member named `__proto__`
 * is data.
 */
export function applyMergePatch(target: unknown, patch: JsonObject): Record<string, unknown>;
export function applyMergePatch(target: unknown, patch: unknown): unknown;
export function applyMergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result = new Map(Object.entries(isObject(target) ? target : {}));
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) result.delete(name);
    else result.set(name, applyMergePatch(result.get(name), value));
  }
  return Object.fromEntries(result);
}
