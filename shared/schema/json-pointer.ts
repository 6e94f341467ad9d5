/** JSON Pointer (RFC 6901): how problems, differences and secrets name a place in a document. */

/** One member's name as a pointer spells it. */
export const pointerToken = (name: string): string =>
  name.replaceAll('~', '~0').replaceAll('/', '~1');

/** The pointer to what `path` leads to, name by name; '' is the whole document. */
export const pointerTo = (path: readonly string[]): string =>
  path.map((name) => `/${pointerToken(name)}`).join('');
