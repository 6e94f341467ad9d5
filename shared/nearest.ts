/** Names that somebody who mistyped one may have meant. */
import { distance } from 'fastest-levenshtein';

/** The nearest first, at most `most`; names at the same distance by the alphabet. */
export const nearestNames = (names: readonly string[], meant: string, most = 5): string[] =>
  names
    .map((name) => ({ name, away: distance(name.toLowerCase(), meant.toLowerCase()) }))
    .sort((a, b) => a.away - b.away || (a.name < b.name ? -1 : 1))
    .slice(0, most)
    .map(({ name }) => name);

/** The nearest; undefined where more than a third of it would have to change. */
export function nearestName(names: readonly string[], meant: string): string | undefined {
  const [nearest] = nearestNames(names, meant, 1);
  if (nearest === undefined) return undefined;
  const away = distance(nearest.toLowerCase(), meant.toLowerCase());
  return away <= nearest.length / 3 ? nearest : undefined;
}
