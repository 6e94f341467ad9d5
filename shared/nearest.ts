/** Names that somebody who mistyped one may have meant. */
import { distance } from 'fastest-levenshtein';

/** The nearest first, at most `most`; names at the same distance by the alphabet. */
export const nearestNames = (names: readonly string[], meant: string, most = 5): string[] =>
  names
    .map((name) => ({ name, away: distance(name, meant) }))
    .sort((a, b) => a.away - b.away || (a.name < b.name ? -1 : 1))
    .slice(0, most)
    .map(({ name }) => name);
