/** How a line that an operator types becomes words. */

/** `'…'` takes everything as it is; in `"…"` a backslash takes the character after it as it is. */
const quotedPart = /'([^']*)'|"((?:[^"\\]|\\.)*)"/gs;
/** A quote that nothing closes is a character like any other. */
const plainWord = /^(?:'[^']*'|"(?:[^"\\]|\\.)*"|\S)+/s;

/**
 * The words of a line. Blanks separate them, except inside quotes, which may also begin inside a
 * word (`--reason="two words"`). What begins with `{` or `[` is one word up to its closing bracket
 * and keeps its quotes, so that JSON is typed as it is.
 */
export function wordsOf(line: string): string[] {
  const words: string[] = [];
  let rest = line.trim();
  while (rest !== '') {
    const isJson = rest.startsWith('{') || rest.startsWith('[');
    const length = isJson ? jsonLength(rest) : plainWord.exec(rest)![0].length;
    const word = rest.slice(0, length);
    words.push(isJson ? word : withoutQuotes(word));
    rest = rest.slice(length).trimStart();
  }
  return words;
}

const withoutQuotes = (word: string): string =>
  word.replaceAll(
    quotedPart,
    (_part, single: string | undefined, double = '') =>
      single ?? (double as string).replaceAll(/\\(.)/gs, '$1'),
  );

/**
 * Up to the bracket that closes the first one; all of the text where none does, which the parser of
 * JSON then refuses.
 */
function jsonLength(text: string): number {
  let depth = 0;
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]]/gs)) {
    if (token === '{' || token === '[') depth += 1;
    if (token === '}' || token === ']') depth -= 1;
    if (depth === 0) return index + token.length;
  }
  return text.length;
}
