/**
 * The command line `strata`: the console's commands over HTTPS, for whoever has an API key or a
 * sign-in. Answers go to stdout, all else to stderr, a failure in one line. Ends with 0, with 1
 * where something failed, with 2 where `plan` or `diff` found differences, with 3 where `decide` or
 * an approval says no.
 */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Misused } from '../command.ts';
import { candidatesFor } from '../completion.ts';
import { helpAsked, helpOn } from '../help.ts';
import { execute, parse, splitFlags } from '../interpreter.ts';
import { fileProblem, isOfFile, printableLine } from '../output.ts';
import { Failed, interrupted } from '../session.ts';
import { openStdout } from '../stdout.ts';
import { askingWord, isPlainWord } from './completion-command.ts';
import { credentialsOf } from './credentials.ts';
import { httpSession } from './http-session.ts';
import { commandFirst, table } from './table.ts';

const failed = 1;
/** By convention 128 and the number of the signal. */
const interruptedBySignal = 130;
/** The Tab key does not wait for a gateway that is far away. */
const completionMs = 2000;

const complain = (text: string): void => {
  process.stderr.write(`strata: ${printableLine(text)}\n`);
};
const { print, exit } = openStdout(complain);

async function main(given: readonly string[], signal: AbortSignal): Promise<number> {
  if (given[0] === askingWord) return offer(given.slice(1), signal);
  const words = commandFirst(given.map((word) => (word === '-h' ? '--help' : word)));
  const [first] = words;
  if (first === '--version') {
    print(version());
    return 0;
  }
  // Options have values, which name no command.
  const isNamed = (word: string, index: number): boolean =>
    word === '--help' || !isOption(word, index, words);
  const asked = first === undefined ? [] : helpAsked(words.filter(isNamed), table);
  if (first === undefined || asked) {
    print(helpOn(asked ?? [], table));
    return 0;
  }
  if (first.startsWith('-')) splitFlags(table.options, words);
  const typed = parse(words, table);
  const credentials = credentialsOf(typed.flags, process.env);
  const session = httpSession(credentials, { signal, warn: complain });
  const entered =
    typed.command.flags?.tenant && credentials.tenant !== undefined
      ? { ...typed, flags: { ...typed.flags, tenant: credentials.tenant } }
      : typed;
  return execute(entered, session, { print, signal });
}

/**
 * What a shell may put in place of the last word. It never fails: the Tab key has no place for an
 * error.
 */
async function offer(given: readonly string[], signal: AbortSignal): Promise<number> {
  try {
    const last = given.at(-1) ?? '';
    const before = commandFirst(given.slice(0, -1));
    const entered = before.filter(isOption);
    // The value of the last one may be what is asked for.
    const { flags } = splitFlags(
      table.options,
      isUnfinished(entered) ? entered.slice(0, -1) : entered,
    );
    const surroundings = { signal, warn: () => {}, timeoutMs: completionMs };
    const session = httpSession(credentialsOf(flags, process.env), surroundings);
    const candidates = await candidatesFor(before, last, session, table);
    for (const candidate of candidates.filter(isPlainWord)) print(candidate);
  } catch {
    // Nothing is offered.
  }
  return 0;
}

const takesValue = (word: string | undefined): boolean =>
  word !== undefined && table.options[word.replace(/^--/, '')]?.type === 'string';

/** Whether the word is an option that every command has, or the value of one. */
function isOption(word: string, index: number, words: readonly string[]): boolean {
  const [name] = word.split('=');
  const isKnown = word.startsWith('--') && table.options[name!.slice(2)] !== undefined;
  return isKnown || takesValue(words[index - 1]);
}

const isUnfinished = (entered: readonly string[]): boolean =>
  entered.length > 0 && takesValue(entered.at(-1)) && !takesValue(entered.at(-2));

/** Where the manifest is, from the program: in the package, whatever that is called, or here. */
const manifests = ['../package.json', '../../client/package.json'];

function version(): string {
  const folder = dirname(realpathSync(process.argv[1]!));
  const manifest = manifests.map((path) => join(folder, path)).find((path) => existsSync(path))!;
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version;
}

/** A failure in one line: what, where, and what to do. */
function describe(error: unknown): string {
  if (!(error instanceof Failed)) return fileProblem(error).replaceAll('\n', '; ');
  const places = error.problems.map(({ path, message }) => `${path || '/'} ${message}`);
  const hint = hints.get(error.code);
  return [
    `${error.code}: ${error.message}`,
    ...(places.length > 0 ? [` ${places.join('; ')}`] : []),
    ...(hint === undefined ? [] : [` ${hint}`]),
    ...(error.requestId === undefined ? [] : [` (request ${error.requestId})`]),
  ].join('');
}

const hints: ReadonlyMap<string, string> = new Map([
  ['auth_api_key_invalid', 'Check STRATA_API_KEY or --api-key-file, or use strata login.'],
  ['auth_token_invalid', 'Check STRATA_API_KEY or --api-key-file, or use strata login.'],
  ['auth_token_expired', 'Use strata login.'],
  ['auth_session_revoked', 'Use strata login.'],
  ['tenant_mismatch', 'strata whoami says whose tenant you act in, strata switch goes to another.'],
]);

const interruption = new AbortController();
process.once('SIGINT', () => interruption.abort());

main(process.argv.slice(2), interruption.signal)
  .catch((error: unknown) => {
    const isInterrupted = interruption.signal.aborted;
    if (isInterrupted && !(error instanceof Failed && error.code === interrupted))
      return interruptedBySignal;
    const isOurs = error instanceof Misused || error instanceof Failed || isOfFile(error);
    complain(isOurs ? describe(error) : `it went wrong: ${describe(error)}`);
    return isInterrupted ? interruptedBySignal : failed;
  })
  .then(exit);
