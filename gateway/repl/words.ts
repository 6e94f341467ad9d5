/**
 * A line as words: separated by blanks; '…' and "…" keep blanks; what begins with { or [ is one word up to its closing bracket, so
 * that JSON is typed as it is.
 */
export function wordsOf(line: string): string[] {
  const words: string[] = [];
  for (let rest = line.trim(); rest !== ''; rest = rest.trimStart()) {
    const quoted = /^'([^']*)'(?=\s|$)|^"((?:[^"\\]|\\.)*)"(?=\s|$)/.exec(rest);
    const raw =
      quoted?.[0] ?? (/^[{[]/.test(rest) ? rest.slice(0, jsonLength(rest)) : /^\S+/.exec(rest)![0]);
    words.push(quoted ? (quoted[1] ?? quoted[2]!.replaceAll(/\\(.)/g, '$1')) : raw);
    rest = rest.slice(raw.length);
  }
  return words;
}

/** Up to the bracket that closes the first one; all of it where none does, which the reader of JSON then refuses. */
function jsonLength(text: string): number {
  let depth = 0;
  for (const { 0: piece, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]]/g)) {
    if (piece === '{' || piece === '[') depth += 1;
    else if (piece === '}' || piece === ']') depth -= 1;
    if (depth === 0) return index + piece.length;
  }
  return text.length;
}
