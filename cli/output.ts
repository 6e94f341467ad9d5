/** How answers are shown. */

/**
 * What a terminal would obey or not show: control characters but the line feed, marks that turn the
 * direction of text, and what has no width. Names are what tenants say they are.
 */
const unprintable = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Text with escapes in place of what a terminal would obey. It may have several lines. */
export const printable = (text: string): string =>
  text.replaceAll(unprintable, (character) => escaped(character));

/** The same of text that has to stay on its line. */
export const printableLine = (text: string): string =>
  printable(text).replaceAll('\n', escaped('\n'));

/** As JSON escapes it: in UTF-16, so that what is beyond its first plane has two. */
const escaped = (character: string): string =>
  character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('');

/** Whether the system refused a file or folder. */
export const isOfFile = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && 'syscall' in error;

/** What the system says of a file, without its code and call: `x.yaml: permission denied`. */
export function fileProblem(error: unknown): string {
  const { message } = error as Error;
  if (!isOfFile(error)) return message;
  const says = message.replace(/^\w+: (.*?), .*$/s, '$1');
  return error.path === undefined ? says : `${error.path}: ${says}`;
}

/** Escapes are part of JSON, so that what is printed still has the same value. */
export const json = (value: unknown): string => printable(JSON.stringify(value, null, 2));
export const jsonLine = (value: unknown): string => printable(JSON.stringify(value));

/** A value as a cell of a table or a part of a line has it. */
export const valueShown = (value: unknown): string =>
  value === undefined ? 'nothing' : jsonLine(value);

/** Rows as aligned columns, headed by their names; `-` stands where a row has no such value. */
export function columns(rows: readonly Readonly<Record<string, unknown>>[]): string {
  if (rows.length === 0) return 'none';
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cell = (value: unknown): string => printableLine(String(value ?? '-'));
  const table = [names, ...rows.map((row) => names.map((name) => cell(row[name])))];
  const widths = names.map((_name, column) => widest(table.map((cells) => cells[column]!)));
  const aligned = table.map((cells) => cells.map((text, column) => text.padEnd(widths[column]!)));
  return aligned.map((cells) => cells.join('  ').trimEnd()).join('\n');
}

/** A cell that is longer does not push the next column of every row. */
const mostPadded = 60;
function widest(cells: readonly string[]): number {
  const lengths = cells.map(({ length }) => length).filter((length) => length <= mostPadded);
  return Math.max(0, ...lengths);
}
