/** Names that somebody who mistyped one may have meant. */

/** Insertions, removals and replacements that make one text the other (Levenshtein). */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_each, index) => index);
  for (let i = 0; i < one.length; i += 1) {
    const next = [i + 1];
    for (let j = 0; j < other.length; j += 1) {
      const replaced = row[j]! + (one[i] === other[j] ? 0 : 1);
      next.push(Math.min(replaced, row[j + 1]! + 1, next[j]! + 1));
    }
    row = next;
  }
  return row.at(-1)!;
}

/** The nearest; undefined where more than a fifth of it would have to change. */
export function nearestOf(names: readonly string[], meant: string): string | undefined {
  let nearest: string | undefined;
  let least = Infinity;
  for (const name of names) {
    const most = Math.min(least - 1, Math.floor(name.length / 5));
    if (Math.abs(name.length - meant.length) > most) continue;
    const away = distance(name, meant);
    if (away > most) continue;
    [nearest, least] = [name, away];
  }
  return nearest;
}
