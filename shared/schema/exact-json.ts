/**
 * JSON that is kept exactly or refused: nothing that JavaScript or PostgreSQL would alter gets in.
 * For every body that reaches Strata. Its cost is linear in the length of the text, whatever the
 * text looks like: a path is built only where something is wrong, and at most `maxProblems` places
 * are told.
 */
import type { Problem } from '../errors.ts';
import { maxPathLength, maxProblems } from './problem-bounds.ts';
import { pointerToken } from './json-pointer.ts';

/** The text is no JSON at all. */
export class InvalidJson extends Error {}

/** The text is JSON, but not what could be given back as it was sent; `problems` says where. */
export class InexactJson extends Error {
  readonly problems: Problem[];

  constructor(problems: Problem[]) {
    super('The JSON cannot be kept exactly as sent.');
    this.problems = problems;
  }
}

/** How deep objects and arrays may be nested, in a body and in what is stored. */
export const maxDepth = 64;
/** Member names of one body or stored document, over all its objects. */
export const maxNames = 10_000;
/**
 * Objects and arrays of one body, and commas between values. Half a million of either fit into 1 MiB,
 * and whatever is done with them, such as to copy, to freeze or to hash them, takes a tenth of a
 * second, in which nobody else is answered.
 */
const maxContainers = 20_000;
/** Members of objects and items of arrays of one body or stored document. */
export const maxValues = 50_000;
/**
 * Characters of one member name. Paths to problems and differences are made of names: without a
 * bound, many of them below one long name would cost many times its length.
 */
const maxNameLength = 1000;
/** A double has at most 767 significant digits; nobody writes more than this on purpose. */
const maxNumberLength = 400;

const char = {
  quote: 0x22,
  comma: 0x2c,
  colon: 0x3a,
  minus: 0x2d,
  zero: 0x30,
  nine: 0x39,
  openBracket: 0x5b,
  backslash: 0x5c,
  closeBracket: 0x5d,
  openBrace: 0x7b,
  closeBrace: 0x7d,
} as const;

/** Characters that are scanned in one go: some milliseconds. */
const chunkLength = 64 * 1024;

/**
 * The value of the text. Throws InvalidJson for bad syntax, and InexactJson where a number, a text
 * or a name cannot be kept, a name is given twice or too long, or the value is nested too deeply or
 * has too many names.
 */
export function parseExactJson(text: string): unknown {
  const chunks = exactJsonChunks(text);
  for (;;) {
    const { done, value } = chunks.next();
    if (done) return value;
  }
}

/** The same, with a stop after each chunk of the text. */
export function* exactJsonChunks(text: string): Generator<void, unknown> {
  const counted = { position: 0, containers: 0, closed: 0, names: 0, commas: 0 };
  while (counted.position < text.length) {
    if (counted.position > 0) yield;
    countChunk(text, counted);
  }
  const tooMany = tooManyIn(counted);
  if (tooMany !== undefined) throw new InexactJson([{ path: '', message: tooMany }]);
  if (text.length > chunkLength) yield;
  const value = parsed(text);
  const scan = new Scan(text);
  while (!scan.isOver) {
    if (text.length > chunkLength) yield;
    scan.chunk();
  }
  if (scan.problems.length > 0) throw new InexactJson(scan.problems);
  return value;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // V8 quotes the text around the error, which may be a secret; only the position is told.
    const position = /position ([0-9]+)/.exec((error as Error).message)?.[1];
    const where = position === undefined ? '' : `, at character ${position}`;
    throw new InvalidJson(`The body is not valid JSON${where}.`);
  }
}

interface Counted {
  position: number;
  containers: number;
  closed: number;
  names: number;
  commas: number;
}

function countChunk(text: string, counted: Counted): void {
  let { position, containers, closed, names, commas } = counted;
  const end = Math.min(text.length, position + chunkLength);
  while (position < end) {
    const code = text.charCodeAt(position);
    if (code === char.quote) {
      position = endOfString(text, position);
      continue;
    }
    if (code === char.openBrace || code === char.openBracket) containers += 1;
    else if (code === char.closeBrace || code === char.closeBracket) closed += 1;
    else if (code === char.colon) names += 1;
    else if (code === char.comma) commas += 1;
    position += 1;
  }
  Object.assign(counted, { position, containers, closed, names, commas });
}

/**
 * What the text has too many of, counted before anything is built from it. Undefined also where
 * brackets do not match: such a text is no JSON, which is the better thing to say.
 */
function tooManyIn({ containers, closed, names, commas }: Counted): string | undefined {
  if (containers === 0 || containers !== closed) return undefined;
  if (names > maxNames) return `has more than ${maxNames} names`;
  if (containers > maxContainers) return `has more than ${maxContainers} objects and arrays`;
  if (commas > maxValues) return `has more than ${maxValues} values`;
  return undefined;
}

/**
 * An object or array that the scan is inside of. Each level has one, used again for the next at the
 * same depth.
 */
interface Container {
  /** The names seen so far; undefined for an array. */
  names: Set<string> | undefined;
  /** The name whose value comes next, in an object. */
  name: string;
  /** The index of the current item, in an array. */
  index: number;
  /** In an object: the next string is a name. */
  expectsName: boolean;
}

/** One pass over text that is known to be valid JSON. Does not recurse. */
class Scan {
  readonly problems: Problem[] = [];
  readonly #text: string;
  readonly #levels: Container[] = [];
  #depth = 0;
  #position = 0;

  constructor(text: string) {
    this.#text = text;
  }

  get isOver(): boolean {
    return this.#position >= this.#text.length || this.problems.length >= maxProblems;
  }

  #report(message: string | undefined): void {
    if (message === undefined) return;
    this.problems.push({ path: pathOf(this.#levels.slice(0, this.#depth)), message });
  }

  #enter(isObject: boolean): void {
    const depth = this.#depth;
    this.#levels[depth] ??= { names: undefined, name: '', index: 0, expectsName: false };
    const level = this.#levels[depth]!;
    level.names = isObject ? new Set<string>() : undefined;
    level.name = '';
    level.index = 0;
    level.expectsName = isObject;
    this.#depth += 1;
  }

  chunk(): void {
    const text = this.#text;
    const chunkEnd = Math.min(text.length, this.#position + chunkLength);
    let position = this.#position;
    while (position < chunkEnd && this.problems.length < maxProblems) {
      const code = text.charCodeAt(position);
      const inside = this.#levels[this.#depth - 1];
      switch (code) {
        case char.openBrace:
        case char.openBracket: {
          if (this.#depth === maxDepth) {
            this.#report(`is nested deeper than ${maxDepth} levels`);
            this.#position = text.length;
            return;
          }
          this.#enter(code === char.openBrace);
          position += 1;
          break;
        }
        case char.closeBrace:
        case char.closeBracket:
          this.#depth -= 1;
          position += 1;
          break;
        case char.comma:
          if (inside!.names) inside!.expectsName = true;
          else inside!.index += 1;
          position += 1;
          break;
        case char.quote: {
          const end = endOfString(text, position);
          const content = contentOf(text, position, end);
          position = end;
          if (inside?.names && inside.expectsName) this.#checkName(inside, inside.names, content);
          this.#report(stringProblem(content));
          break;
        }
        default: {
          const startsNumber = code === char.minus || (code >= char.zero && code <= char.nine);
          if (!startsNumber) {
            // A colon, white space, or a letter of true, false and null.
            position += 1;
            break;
          }
          const end = endOfNumber(text, position);
          this.#report(numberProblem(text.slice(position, end)));
          position = end;
        }
      }
    }
    this.#position = position;
  }

  #checkName(inside: Container, names: Set<string>, content: string): void {
    inside.name = content;
    inside.expectsName = false;
    if (content.length > maxNameLength)
      this.#report(`has more than ${maxNameLength} characters in its name`);
    if (names.has(content)) this.#report('is given twice in one object');
    names.add(content);
  }
}

/**
 * The position after the closing quote of the string that begins at `start`, or after the text
 * where there is none.
 */
function endOfString(text: string, start: number): number {
  let position = start + 1;
  while (position < text.length) {
    const code = text.charCodeAt(position);
    if (code === char.quote) return position + 1;
    position += code === char.backslash ? 2 : 1;
  }
  return position;
}

function contentOf(text: string, start: number, end: number): string {
  const raw = text.slice(start + 1, end - 1);
  return raw.includes('\\') ? (JSON.parse(text.slice(start, end)) as string) : raw;
}

/** The position after the number that begins at `start`. */
function endOfNumber(text: string, start: number): number {
  let position = start + 1;
  while (position < text.length && isNumberPart(text.charCodeAt(position))) position += 1;
  return position;
}

/** Digits and the characters of `.`, `+`, `-`, `e` and `E`. */
const isNumberPart = (code: number): boolean =>
  (code >= char.zero && code <= char.nine) ||
  code === 0x2e ||
  code === 0x2b ||
  code === char.minus ||
  code === 0x65 ||
  code === 0x45;

/**
 * The JSON Pointer (RFC 6901) of the value that the scan is at, or of the deepest value around it
 * whose pointer fits.
 */
function pathOf(containers: readonly Container[]): string {
  let path = '';
  for (const { names, name, index } of containers) {
    // The length is compared first, so that a long name is not escaped in vain.
    if (names && path.length + name.length >= maxPathLength) return path;
    const next = `${path}/${names ? pointerToken(name) : index}`;
    if (next.length > maxPathLength) return path;
    path = next;
  }
  return path;
}

function stringProblem(value: string): string | undefined {
  if (value.includes('\0')) return 'has the character U+0000, which cannot be stored';
  if (!value.isWellFormed()) return 'has half of a surrogate pair, which cannot be stored';
  return undefined;
}

/** What is wrong with a number's text, if JavaScript would not give its value back. */
function numberProblem(source: string): string | undefined {
  if (source.length > maxNumberLength) return 'has more digits than can be held exactly';
  const value = Number(source);
  if (Object.is(value, -0) && /^-[0.]+([eE]|$)/.test(source))
    return 'is a negative zero, whose sign would be lost';
  const printed = String(value);
  // The second comparison only saves time: most numbers that differ from what JavaScript prints do
  // so by a fraction of zeros.
  if (printed === source || printed === withoutZeroFraction(source)) return undefined;
  if (!Number.isFinite(value) || significand(printed) !== significand(source))
    return 'is a number that cannot be held exactly; send it as a string';
  return undefined;
}

/**
 * A decimal without leading and trailing zeros and its power of ten, so that equal decimals are
 * equal texts.
 */
function significand(source: string): string {
  const [mantissa = '', exponentText = '0'] = source.toLowerCase().split('e');
  const negative = mantissa.startsWith('-');
  const [whole = '', fraction = ''] = (negative ? mantissa.slice(1) : mantissa).split('.');
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = withoutTrailingZeros(digits);
  if (significant === '') return '0';
  const shift = digits.length - significant.length - fraction.length;
  // An exponent of more digits than a double holds is exact only as a big integer.
  const exponent =
    exponentText.length < 15 ? Number(exponentText) + shift : BigInt(exponentText) + BigInt(shift);
  return `${negative ? '-' : ''}${significant}e${exponent}`;
}

/** `1.500` and `1.0` as `1.5` and `1`; unchanged where there is an exponent or no fraction. */
function withoutZeroFraction(source: string): string {
  if (!source.includes('.') || /[eE]/.test(source)) return source;
  const shortened = withoutTrailingZeros(source);
  return shortened.endsWith('.') ? shortened.slice(0, -1) : shortened;
}

/** As `replace(/0+$/, '')`, which looks at every run of zeros and so is quadratic. */
function withoutTrailingZeros(digits: string): string {
  let end = digits.length;
  while (end > 0 && digits.charCodeAt(end - 1) === char.zero) end -= 1;
  return digits.slice(0, end);
}
