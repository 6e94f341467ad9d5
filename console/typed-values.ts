/** Values of JSON as people type them into one line, as the command line takes them. */
import { InexactJson, parseExactJson } from '../shared/schema/exact-json.ts';

export const number = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const isWord = (text: string): boolean => ['true', 'false', 'null'].includes(text);
const isPlainText = (text: string): boolean =>
  !number.test(text) && !isWord(text) && !/^["[{]/.test(text);

/**
 * JSON as people write it. Throws where it is none, and where it would lose something: a name that
 * is given twice, or a number that cannot be held exactly.
 */
export function parsedJson(text: string): unknown {
  // What it says of a text that is no JSON is where that ends.
  const value: unknown = JSON.parse(text);
  try {
    parseExactJson(text);
  } catch (error) {
    const [problem] = error instanceof InexactJson ? error.problems : [];
    if (problem) throw new RangeError(`${problem.path || 'It'} ${problem.message}.`);
    throw error;
  }
  return value;
}

/**
 * A number, `true`, `false`, `null`, or JSON that begins with a quote or bracket; anything else is a
 * text. Nothing is no value. Throws, in words for people, where it is to be JSON and is none.
 */
export function valueOf(text: string): unknown {
  const trimmed = text.trim();
  if (trimmed === '') return undefined;
  if (isPlainText(trimmed)) return trimmed;
  try {
    return parsedJson(trimmed);
  } catch (error) {
    if (error instanceof RangeError) throw error;
    throw new Error('This is no JSON. A text does not begin with a quote or bracket.', {
      cause: error,
    });
  }
}

/** What is read as the value again. */
export function typedText(value: unknown): string {
  if (value === undefined) return '';
  const isItself =
    typeof value === 'string' && value !== '' && value.trim() === value && isPlainText(value);
  return isItself ? value : JSON.stringify(value);
}
