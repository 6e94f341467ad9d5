/** Files that a page makes for whoever looks at it. */

const types = {
  ndjson: 'application/x-ndjson',
  csv: 'text/csv',
  json: 'application/json',
} as const;

/** Has the browser save the lines, as if it had downloaded them. */
export const saveLines = (subject: string, lines: string[]): void =>
  saveText(subject, 'ndjson', lines);

export function saveText(subject: string, form: keyof typeof types, lines: string[]): void {
  const url = URL.createObjectURL(new Blob(lines, { type: types[form] }));
  const link = document.createElement('a');
  link.href = url;
  link.download = `${subject}-${new Date().toISOString().slice(0, 10)}.${form}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
