/** A cell (RFC 4180): quoted, and no formula of a program of tables (OWASP, CSV injection). */
function cellOf(text: string): string {
  const harmless = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${harmless.replaceAll('"', '""')}"`;
}

export const csvLine = (cells: readonly string[]): string => `${cells.map(cellOf).join(',')}\r\n`;
