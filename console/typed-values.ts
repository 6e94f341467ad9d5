/** Values of JSON as people type them into one line, as the command line takes them. */

export const number = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const isWord = (text: string): boolean => ['true', 'false', 'null'].includes(text);

export type Typed =
  | { readonly value: unknown; readonly problem: undefined }
  | { readonly value?: undefined; readonly problem: string };

/** Of a larger one JSON says null, which removes the value. */
const tooLarge = 'A number is too large.';

/** JSON as people write it. Throws where it is none, or where a number is beyond what JSON can say. */
export const parsedJson = (text: string): unknown =>
  JSON.parse(text, (_name, value: unknown) => {
    if (typeof value === 'number' && !Number.isFinite(value)) throw new RangeError(tooLarge);
    return value;
  });

/** A decimal number. */
export function numberOf(text: string): Typed {
  const value = Number(text);
  return Number.isFinite(value) ? { value, problem: undefined } : { problem: tooLarge };
}

/**
 * A number, `true`, `false`, `null`, or JSON that begins with a quote or bracket; anything else is a
 * text. Nothing is no value.
 */
export function valueOf(text: string): Typed {
  const trimmed = text.trim();
  if (trimmed === '') return { value: undefined, problem: undefined };
  if (!number.test(trimmed) && !isWord(trimmed) && !/^["[{]/.test(trimmed))
    return { value: trimmed, problem: undefined };
  try {
    return { value: parsedJson(trimmed), problem: undefined };
  } catch (error) {
    if (error instanceof RangeError) return { problem: error.message };
    return { problem: 'This is no JSON. A text does not begin with a quote or bracket.' };
  }
}

/** What is read as the value again. */
export function typedText(value: unknown): string {
  if (value === undefined) return '';
  if (typeof value !== 'string') return JSON.stringify(value);
  return valueOf(value).value === value ? value : JSON.stringify(value);
}
