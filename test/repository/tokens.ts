/**
 * A lexer for TypeScript that is just good enough to count with: it tells code from comments and
 * splits code into tokens.
 *
 * One token is an identifier or keyword, a number, a whole string, a regular expression, each
 * literal part of a template, or one punctuator in the longest form that the language has (`=>`,
 * `?.`, `...`). Comments and white space are none.
 */

export interface LineCount {
  /** Tokens that begin on the line. */
  tokens: number;
  /** A comment stands on the line, or a part of one. */
  comment: boolean;
}

/** Sticky patterns, each tried where the text has been read up to. */
const patterns = {
  space: /\s+/y,
  comment: /\/\/[^\n]*|\/\*[^]*?\*\//y,
  word: /[\p{ID_Start}$_#@][\p{ID_Continue}$]*/uy,
  number: /\d[\w.]*|\.\d\w*/y,
  string: /'(?:[^'\\\n]|\\[^])*'|"(?:[^"\\\n]|\\[^])*"/y,
  /**
   * From a backtick, or from the brace that closes an expression, to the end of the template or the
   * next expression.
   */
  template: /[`}](?:[^`\\$]|\\[^]|\$(?!\{))*(?:`|\$\{)/y,
  regularExpression: /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y,
  punctuator:
    />>>=|\.\.\.|===|!==|\*\*=|<<=|>>=|>>>|&&=|\|\|=|\?\?=|=>|==|!=|<=|>=|&&|\|\||\?\?|\?\.|\+\+|--|[-+*/%&|^]=|<<|>>|\*\*|[^]/y,
};

/**
 * A slash divides after an operand; after these words, and after any other punctuator, it begins a
 * regular expression.
 */
const wordsBeforeOperand =
  /^(?:return|typeof|case|in|of|delete|void|throw|new|do|else|await|yield)$/;
const endOfOperand = /[\p{ID_Continue}$'"`)\]}]$/u;

/** One entry for each line of the text. */
export function countTokens(text: string): LineCount[] {
  const lines = text.split('\n').map((): LineCount => ({ tokens: 0, comment: false }));
  /** For each template that is being read: how many braces are open in its expression. */
  const openBraces: number[] = [];
  let position = 0;
  let line = 0;
  let previous = '';

  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = position;
    return pattern.exec(text)?.[0];
  };

  /** The next token; keeps account of templates and of the braces within them. */
  const nextToken = (): string => {
    const first = text[position];
    const continuesTemplate = first === '}' && openBraces.at(-1) === 0;
    if (first === '`' || continuesTemplate) {
      const part = match(patterns.template) ?? text.slice(position);
      if (continuesTemplate) openBraces.pop();
      if (part.endsWith('${')) openBraces.push(0);
      return part;
    }
    if (openBraces.length > 0 && first === '{') openBraces[openBraces.length - 1]! += 1;
    if (openBraces.length > 0 && first === '}') openBraces[openBraces.length - 1]! -= 1;
    const divides = endOfOperand.test(previous) && !wordsBeforeOperand.test(previous);
    return (
      match(patterns.word) ??
      match(patterns.number) ??
      match(patterns.string) ??
      (divides ? undefined : match(patterns.regularExpression)) ??
      match(patterns.punctuator)!
    );
  };

  while (position < text.length) {
    const space = match(patterns.space);
    const comment = match(patterns.comment);
    const taken = space ?? comment ?? nextToken();
    const lastLine = line + taken.split('\n').length - 1;
    if (comment !== undefined) {
      for (let each = line; each <= lastLine; each += 1) lines[each]!.comment = true;
    } else if (space === undefined) {
      lines[line]!.tokens += 1;
      previous = taken;
    }
    position += taken.length;
    line = lastLine;
  }
  return lines;
}
