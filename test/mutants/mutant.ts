/**
 * A mutant is a small file that takes one mechanism out of the source and names the tests that must
 * notice. README.md of this folder shows the format.
 */

/** A part of the source and what stands in its place. */
export interface Edit {
  readonly from: string;
  readonly to: string;
}

/** A test file, and the name of its tests where not all of them are meant. */
export interface NamedTests {
  readonly file: string;
  readonly name: string | undefined;
}

export interface Mutant {
  /** The file's name without its ending. */
  readonly name: string;
  /** One sentence: what the code does without the mechanism. */
  readonly title: string;
  /** The source file that is changed, from the root of the checkout. */
  readonly file: string;
  readonly edits: readonly Edit[];
  /** Each of these must fail. */
  readonly tests: readonly NamedTests[];
}

export class MutantError extends Error {}

const instead = '--- instead of';
const replacement = '--- this';

/** Reads a mutant; throws a MutantError that says what is missing. */
export function parseMutant(name: string, text: string): Mutant {
  const [head = '', ...sections] = text.split(`${instead}\n`);
  const headLines = head.split('\n').map((line) => line.trim());
  const valuesOf = (field: string): string[] =>
    headLines
      .filter((line) => line.startsWith(`${field}: `))
      .map((line) => line.slice(field.length + 2));

  const title = headLines[0] ?? '';
  const [file] = valuesOf('file');
  const tests = valuesOf('killed by').map(parseTests);
  const edits = sections.map((section) => parseEdit(name, section));
  if (title === '') throw new MutantError(`${name}: the first line must say what is taken out`);
  if (file === undefined) throw new MutantError(`${name}: no line "file: …"`);
  if (tests.length === 0) throw new MutantError(`${name}: no line "killed by: …"`);
  if (edits.length === 0) throw new MutantError(`${name}: no section "${instead}"`);
  return { name, title, file, edits, tests };
}

/** `test/rules/x.test.ts`, or `test/rules/x.test.ts "a name or the beginning of one"`. */
function parseTests(text: string): NamedTests {
  const space = text.indexOf(' ');
  if (space === -1) return { file: text, name: undefined };
  return { file: text.slice(0, space), name: text.slice(space + 1).replace(/^"|"$/g, '') };
}

function parseEdit(name: string, section: string): Edit {
  const parts = `${section}\n`.split(`${replacement}\n`);
  const [from, to] = parts;
  if (parts.length !== 2 || from === undefined || to === undefined || from.trim() === '')
    throw new MutantError(`${name}: "${instead}" needs some text, then "${replacement}"`);
  return { from: from.trim(), to: to.trim() };
}

/** The source without the mechanism; throws a MutantError unless each text occurs exactly once. */
export const applyMutant = (mutant: Mutant, source: string): string =>
  mutant.edits.reduce((text, edit) => applyEdit(mutant, edit, text), source);

function applyEdit({ name, file }: Mutant, { from, to }: Edit, source: string): string {
  const found = [...source.matchAll(patternOf(from))];
  const [match] = found;
  if (match === undefined || found.length > 1) {
    const occurs = match === undefined ? 'no longer occurs' : `occurs ${found.length} times`;
    throw new MutantError(`${name}: this text ${occurs} in ${file}:\n${from}`);
  }
  return source.slice(0, match.index) + to + source.slice(match.index + match[0].length);
}

/**
 * Matches the text however it is indented and broken into lines, so that a formatter does not make
 * it disappear.
 */
const patternOf = (text: string): RegExp =>
  new RegExp(
    text
      .split(/\s+/)
      .map((word) => literally(word))
      .join('\\s+'),
    'g',
  );

/** The source of a regular expression that matches this text and nothing else. */
export const literally = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
