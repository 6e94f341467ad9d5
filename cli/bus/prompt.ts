/**
 * The prompt of the console: moleculer-repl with our commands as its custom commands.
 *
 * moleculer-repl has commands of its own. Those that act on the broker (call, emit, load, destroy,
 * …) would bypass contracts, access and audit, and those that show the environment or the broker's
 * options (env, info) would show secrets. Only the ones that list what the cluster's registry knows
 * are kept. Lines are read by the rules of `words.ts`, as from a pipe, since moleculer-repl's own
 * would take JSON apart.
 */
import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { callbackify } from 'node:util';
import startRepl from 'moleculer-repl';
import type { ClusterSession } from './cluster-session.ts';
import { complete } from '../completion.ts';
import { consoleTable } from '../commands/console-commands.ts';
import { wordsOf } from '../words.ts';

/**
 * What stays of moleculer-repl's own commands: their files, and the words that they are typed as.
 */
const keptFiles: ReadonlySet<string> = new Set([
  'actions.js',
  'cls.js',
  'events.js',
  'quit.js',
  'services.js',
]);
const keptWords: ReadonlySet<string> = new Set([
  'actions',
  'cls',
  'events',
  'exit',
  'q',
  'quit',
  'services',
]);

/** moleculer-repl does not export this type. */
type CustomCommand = Extract<
  Parameters<typeof startRepl>[1]['customCommands'],
  readonly unknown[]
>[number];

const { commands, firstWords, groupOf } = consoleTable;

type Execute = (words: readonly string[], signal: AbortSignal) => Promise<unknown>;

/**
 * Reads and runs commands until the operator leaves; then moleculer-repl stops the broker and ends
 * the process. `execute` runs one command and says itself what failed.
 */
export function startPrompt(session: ClusterSession, execute: Execute): void {
  const running: { command?: AbortController } = {};
  async function runCommand(words: readonly string[]): Promise<void> {
    running.command = new AbortController();
    await execute(words, running.command.signal);
    running.command = undefined;
  }

  leaveOutOwnCommands();
  const server = startRepl(session.broker, {
    delimiter: 'strata>',
    customCommands: firstWords.map((word) => customCommand(word, runCommand)),
  });
  const evaluate = server.eval;
  /** Resolves when moleculer-repl has run the command of that line. */
  const passOn = (line: string): Promise<void> =>
    new Promise((done) => {
      evaluate.call(server, line, server.context, 'strata', () => done());
    });

  async function runLine(line: string): Promise<void> {
    const words = wordsOf(line);
    const first = words[0];
    if (first === undefined || first.startsWith('#')) return;
    if (keptWords.has(first)) await passOn(line);
    else if (firstWords.includes(first)) await passOn(`${first} ${packed(words)}`);
    else await runCommand(words);
  }

  let busy: Promise<void> = Promise.resolve();
  /**
   * Lines that were typed while a command runs wait for it. `showPrompt` wants an error or null.
   */
  async function runNext(line: string, showPrompt: (error: null) => void): Promise<void> {
    await busy;
    await runLine(line);
    showPrompt(null);
  }
  Object.assign(server, {
    eval: (line: string, _context: unknown, _file: string, done: (error: null) => void): void => {
      busy = runNext(line, done);
    },
    completer: callbackify((line: string) => complete(line, session, consoleTable)),
  });
  server.on('SIGINT', () => running.command?.abort());
  server.on('history', forgetSecrets);
}

/**
 * Leaves out moleculer-repl's own commands but the kept ones, before it starts. It has no option
 * for that; it asks each file of a folder to register its commands, so the files that are not on
 * our list are made to register nothing.
 */
function leaveOutOwnCommands(): void {
  const require = createRequire(import.meta.url);
  const index = require.resolve('moleculer-repl/src/commands/index.js');
  const files = readdirSync(dirname(index)).filter((file) => file.endsWith('.js'));
  for (const file of files) {
    if (file === 'index.js' || keptFiles.has(file)) continue;
    const command = require(join(dirname(index), file)) as { register: () => void };
    command.register = () => {};
  }
}

/**
 * The commands that begin with this word, as one custom command: it takes words that are packed
 * into one.
 */
function customCommand(
  word: string,
  runCommand: (words: readonly string[]) => Promise<void>,
): CustomCommand {
  const group = groupOf(word);
  const single = commands.find(({ name }) => name === word);
  return {
    command: `${word} [packed]`,
    description: single?.summary ?? group.join(', '),
    alias: null,
    options: [],
    allowUnknownOptions: null,
    parse(command: { args: [string]; params: readonly string[] }) {
      command.params = unpacked(command.args[0]);
    },
    action: (_broker: unknown, words: readonly string[]) => runCommand(words),
  };
}

/** Words as one word without blanks and quotes, so that moleculer-repl passes it on as it is. */
const packed = (words: readonly string[]): string =>
  encodeURIComponent(JSON.stringify(words)).replaceAll("'", '%27');
const unpacked = (word: string): readonly string[] =>
  JSON.parse(decodeURIComponent(word)) as readonly string[];

/**
 * moleculer-repl keeps the lines in ~/.moleculer_repl_history. A line with JSON that may hold a
 * secret is not kept, not even here.
 */
function forgetSecrets(lines: string[]): void {
  const [newest = ''] = lines;
  const mayHoldSecret =
    newest.includes('{') && /notifications|call|secret|password|token|key/i.test(newest);
  if (mayHoldSecret) lines.shift();
}
