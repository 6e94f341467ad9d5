/** JSON Pointer (RFC 6901): how problems, differences and secrets name a place in a document. */

/** One member's name as a pointer spells it. */
export const pointerToken = (name: string): string =>
  name.replaceAll('~', '~0').replaceAll('/', '~1');

/** The pointer to what `path` leads to, name by name; '' is the whole document. */
export const pointerTo = (path: readonly string[]): string =>
  path.map((name) => `/${pointerToken(name)}`).join('');

/** The names that a pointer leads by. */
export const namesOf = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));

export type JsonObject = Readonly<Record<string, unknown>>;

/** Neither null nor a list. */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const membersOf = (value: unknown): JsonObject => (isObject(value) ? value : {});

/** Undefined where there is nothing. A list has no members: it is one value. */
export const valueAt = (value: unknown, names: readonly string[]): unknown =>
  names.reduce<unknown>((inner, name) => {
    const members = membersOf(inner);
    return Object.hasOwn(members, name) ? members[name] : undefined;
  }, value);

/** A copy with another value at a place, or without the place for undefined. */
export function withValueAt(
  value: unknown,
  [name, ...inner]: readonly string[],
  next: unknown,
): unknown {
  if (name === undefined) return next;
  const members = new Map(Object.entries(membersOf(value)));
  const below = withValueAt(members.get(name), inner, next);
  if (below === undefined) members.delete(name);
  else members.set(name, below);
  return Object.fromEntries(members);
}
