/**
 * Texts of JSON that cost a careless reader more than their length. Each is made at about the
 * number of bytes asked for.
 */

const repeated = (item: string, bytes: number): string =>
  Array.from({ length: Math.max(1, Math.floor(bytes / (item.length + 1))) }, () => item).join(',');

const names = (bytes: number): string =>
  Array.from({ length: Math.floor(bytes / 10) }, (_, index) => `"n${index}":1`).join(',');

export const hostileJson: Readonly<Record<string, (bytes: number) => string>> = {
  'one long name over many wrong items': (bytes) =>
    `{"${'a'.repeat(bytes / 2)}":[${repeated('1e999', bytes / 2)}]}`,
  'one long name to be escaped over many wrong items': (bytes) =>
    `{"${'/~'.repeat(bytes / 4)}":[${repeated('-0', bytes / 2)}]}`,
  'many numbers that cannot be held': (bytes) => `[${repeated('1e400', bytes)}]`,
  'many numbers with zeros to strip': (bytes) => `[${repeated('1.0', bytes)}]`,
  'many exponents': (bytes) => `[${repeated('12e5', bytes)}]`,
  'long numbers': (bytes) => `[${repeated(`0.${'0'.repeat(380)}1`, bytes)}]`,
  'one number': (bytes) => '1'.repeat(bytes),
  'many names': (bytes) => `{${names(bytes)}}`,
  'one name given again and again': (bytes) => `{${repeated('"a":1', bytes)}}`,
  'a long text of escapes': (bytes) => `"${'\\u0041'.repeat(bytes / 6)}"`,
  'a long text of backslashes': (bytes) => `"${'\\\\'.repeat(bytes / 2)}"`,
  'many texts that cannot be stored': (bytes) => `[${repeated('"\\u0000"', bytes)}]`,
  'many short texts with a quote': (bytes) => `[${repeated('"\\""', bytes)}]`,
  'deep nesting': (bytes) => '['.repeat(bytes / 2) + ']'.repeat(bytes / 2),
  'many nested arrays': (bytes) => `[${repeated('['.repeat(60) + ']'.repeat(60), bytes)}]`,
  'many empty objects': (bytes) => `[${repeated('{}', bytes)}]`,
};
