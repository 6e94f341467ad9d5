/** JSON that is kept exactly or refused: nothing that JavaScript or PostgreSQL would alter gets in. */
import type { Problem } from '../errors.ts';
import { pointerPart } from './diff.ts';

export class InvalidJson extends Error {}
export class InexactJson extends Error {
  readonly problems: Problem[];
  constructor(problems: Problem[]) {
    super('The JSON cannot be kept exactly as sent.');
    this.problems = problems;
  }
}

const deepest = 64;
const mostProblems = 50;

/** Digits and exponent without leading and trailing zeros, so that equal decimals look alike. */
function decimal(source: string): string {
  const [, sign, whole, fraction = '', exponent = '0'] =
    /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/.exec(source)!;
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return '0';
  return `${sign}${significant}e${BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - significant.length)}`;
}

/** What is wrong with a number's text, if JavaScript would not give it back. */
function numberProblem(source: string): string | undefined {
  if (/^-0+(\.0+)?([eE].*)?$/.test(source)) return 'is a negative zero, whose sign would be lost';
  if (source.length > 400) return 'has more digits than can be held exactly';
  const value = Number(source);
  if (!Number.isFinite(value) || decimal(String(value)) !== decimal(source))
    return 'is a number that cannot be held exactly; send it as a string';
  return undefined;
}

const stringProblem = (value: string): string | undefined =>
  value.includes('\0')
    ? 'has the character U+0000, which cannot be stored'
    : value.isWellFormed()
      ? undefined
      : 'has half of a surrogate pair, which cannot be stored';

interface Frame {
  readonly keys: Set<string> | undefined;
  key: string;
  index: number;
  expectKey: boolean;
}

/** Throws InvalidJson for bad syntax, InexactJson with every place that could not be kept. Linear, and does not recurse. */
export function parseExactJson(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    // V8 quotes the text around the error, which may be a secret; only the position is told.
    const position = /position ([0-9]+)/.exec((error as Error).message)?.[1];
    throw new InvalidJson(
      `The body is not valid JSON${position ? `, at character ${position}` : ''}.`,
    );
  }
  const problems = scan(text);
  if (problems.length > 0) throw new InexactJson(problems);
  return value;
}

/** One pass over text that is known to be valid JSON. */
function scan(text: string): Problem[] {
  const problems: Problem[] = [];
  const stack: Frame[] = [];
  const token = /"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|[{}[\],:]/g;
  const path = (upTo = stack.length): string =>
    stack
      .slice(0, upTo)
      .map((frame) => `/${frame.keys ? pointerPart(frame.key) : frame.index}`)
      .join('');
  const report = (where: string, message: string | undefined): void => {
    if (message) problems.push({ path: where, message });
  };
  for (const [part] of text.matchAll(token)) {
    if (problems.length >= mostProblems) break;
    const top = stack.at(-1);
    switch (part[0]) {
      case '{':
      case '[':
        if (stack.length === deepest) {
          report(path(), `is nested deeper than ${deepest} levels`);
          return problems;
        }
        stack.push({
          keys: part === '{' ? new Set() : undefined,
          key: '',
          index: 0,
          expectKey: part === '{',
        });
        break;
      case '}':
      case ']':
        stack.pop();
        break;
      case ',':
        if (top?.keys) top.expectKey = true;
        else if (top) top.index += 1;
        break;
      case ':':
        break;
      case '"': {
        const content = part.includes('\\') ? (JSON.parse(part) as string) : part.slice(1, -1);
        if (top?.keys && top.expectKey) {
          top.key = content;
          top.expectKey = false;
          if (top.keys.has(content)) report(path(), 'is given twice in one object');
          top.keys.add(content);
        }
        report(path(), stringProblem(content));
        break;
      }
      default:
        report(path(), numberProblem(part));
    }
  }
  return problems;
}
