/** Values of JSON as people type them into one line, as the command line takes them. */

const number = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const isWord = (text: string): boolean => ['true', 'false', 'null'].includes(text);

export type Typed =
  | { readonly value: unknown; readonly problem: undefined }
  | { readonly value?: undefined; readonly problem: string };

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
    return { value: JSON.parse(trimmed) as unknown, problem: undefined };
  } catch {
    return { problem: 'This is no JSON. A text does not begin with a quote or bracket.' };
  }
}

/** What is read as the value again. */
export function typedText(value: unknown): string {
  if (value === undefined) return '';
  if (typeof value !== 'string') return JSON.stringify(value);
  return valueOf(value).value === value ? value : JSON.stringify(value);
}
