/** How answers are shown. */

export const json = (value: unknown): string => JSON.stringify(value, null, 2);

/** Rows as aligned columns, headed by their names; `-` stands where a row has no such value. */
export function columns(rows: readonly Readonly<Record<string, unknown>>[]): string {
  if (rows.length === 0) return 'none';
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const table = [names, ...rows.map((row) => names.map((name) => String(row[name] ?? '-')))];
  const widths = names.map((_name, column) =>
    Math.max(...table.map((cells) => cells[column]!.length)),
  );
  const aligned = table.map((cells) => cells.map((cell, column) => cell.padEnd(widths[column]!)));
  return aligned.map((cells) => cells.join('  ').trimEnd()).join('\n');
}
