/** Files that a page makes for whoever looks at it. */

/** Has the browser save the lines, as if it had downloaded them. */
export function saveLines(subject: string, lines: string[]): void {
  const url = URL.createObjectURL(new Blob(lines, { type: 'application/x-ndjson' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = `${subject}-${new Date().toISOString().slice(0, 10)}.ndjson`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
