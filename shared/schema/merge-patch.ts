/** For PATCH of every stored document. */
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
