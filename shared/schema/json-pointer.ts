/** JSON Pointer (RFC 6901): how problems, differences and secrets name a place in a document. */
import { groupedBy } from './grouped-by.ts';

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

/** A value for a place; undefined for none. */
interface Placed {
  readonly names: readonly string[];
  readonly next: unknown;
}

/** A copy with other values at some places, in their order. Each object is copied once. */
export function withValuesAt(value: unknown, places: readonly Placed[]): unknown {
  const last = places.findLastIndex(({ names }) => names.length === 0);
  const start = last < 0 ? value : places[last]!.next;
  const inside = places.slice(last + 1);
  if (inside.length === 0) return start;
  const members = new Map(Object.entries(membersOf(start)));
  for (const [name, below] of groupedBy(inside, ({ names }) => names[0]!)) {
    const rest = below.map(({ names: [, ...names], next }) => ({ names, next }));
    const member = withValuesAt(members.get(name), rest);
    if (member === undefined) members.delete(name);
    else members.set(name, member);
  }
  return Object.fromEntries(members);
}
