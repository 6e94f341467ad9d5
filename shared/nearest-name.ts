/** What somebody may have meant by a name that does not exist. */

/**
 * How many letters have to be put in, left out, replaced, or swapped with the next (optimal string
 * alignment distance).
 */
function distanceBetween(from: string, to: string): number {
  const rows = [Array.from({ length: to.length + 1 }, (_each, index) => index)];
  for (let i = 1; i <= from.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const isSame = from[i - 1] === to[j - 1];
      const isSwapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      const steps = [
        rows[i - 1]![j]! + 1,
        row[j - 1]! + 1,
        rows[i - 1]![j - 1]! + (isSame ? 0 : 1),
        ...(isSwapped ? [rows[i - 2]![j - 2]! + 1] : []),
      ];
      row.push(Math.min(...steps));
    }
    rows.push(row);
  }
  return rows[from.length]![to.length]!;
}

/**
 * The known name that is nearest; undefined where more than a third of it would have to change, or
 * the name is no name at all.
 */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  if (name.length > 100) return undefined;
  let nearest: string | undefined;
  let least = Infinity;
  for (const each of known) {
    const distance = distanceBetween(name.toLowerCase(), each.toLowerCase());
    if (distance < least && distance <= each.length / 3) {
      nearest = each;
      least = distance;
    }
  }
  return nearest;
}
