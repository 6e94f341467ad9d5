/**
 * The operator's console: `npm run repl` for a prompt, `npm run repl -- <command>` for one command,
 * or commands from a pipe.
 */
import { createInterface } from 'node:readline';
import { SettingsInvalid } from '../../shared/settings/settings.ts';
import { CannotJoin, join, type ClusterSession } from './cluster-session.ts';
import { consoleTable } from '../commands/console-commands.ts';
import { Misused } from '../command.ts';
import { helpAsked, helpOn } from '../help.ts';
import { describe, run } from '../interpreter.ts';
import { printable } from '../output.ts';
import { openStdout } from '../stdout.ts';
import { wordsOf } from '../words.ts';

const complain = (text: string): void => {
  process.stderr.write(`${printable(text)}\n`);
};
const { print, exit } = openStdout(complain);

/** Runs a command and says why it failed. Returns its exit code. */
async function attempt(
  words: readonly string[],
  session: ClusterSession,
  signal: AbortSignal,
): Promise<number> {
  try {
    return await run(words, session, { print, signal }, consoleTable);
  } catch (error) {
    complain(describe(error));
    return 1;
  }
}

/**
 * One command of a pipe after the other; the first that fails is the last. Returns the exit code of
 * the last.
 */
async function runLines(session: ClusterSession, signal: AbortSignal): Promise<number> {
  let code = 0;
  for await (const line of createInterface({ input: process.stdin, terminal: false })) {
    const words = wordsOf(line);
    if (words[0] === 'exit' || words[0] === 'quit') return code;
    const isCommand = words[0] !== undefined && !words[0].startsWith('#');
    if (isCommand) code = await attempt(words, session, signal);
    if (code === 1) return code;
  }
  return code;
}

async function main(): Promise<number> {
  const words = process.argv.slice(2);
  const asked = helpAsked(words, consoleTable);
  if (asked) {
    print(helpOn(asked, consoleTable));
    return 0;
  }
  const session = await join();
  if (words.length === 0 && process.stdin.isTTY) {
    print(`Joined as operator ${session.operator}. help lists the commands.`);
    const { startPrompt } = await import('./prompt.ts');
    startPrompt(session, (typed, signal) => attempt(typed, session, signal));
    // The prompt ends the process.
    return new Promise<never>(() => {});
  }
  const interrupted = new AbortController();
  process.once('SIGINT', () => interrupted.abort());
  const code =
    words.length > 0
      ? await attempt(words, session, interrupted.signal)
      : await runLines(session, interrupted.signal);
  await session.leave();
  return code;
}

main().then(exit, (error: unknown) => {
  const canBeMended = [CannotJoin, SettingsInvalid, Misused].some((kind) => error instanceof kind);
  complain(canBeMended ? (error as Error).message : ((error as Error).stack ?? String(error)));
  process.exit(1);
});
