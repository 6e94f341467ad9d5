/** The operator's console: `npm run repl` for a prompt, `npm run repl -- <command>` for one command, or commands from a pipe. */
import { createInterface } from 'node:readline';
import { SettingsInvalid } from '../../shared/settings.ts';
import { helpOn } from './help.ts';
import { describe, run } from './interpreter.ts';
import { CannotJoin, join, type Session } from './session.ts';
import { wordsOf } from './words.ts';

const print = (text: string): void => {
  process.stdout.write(`${text}\n`);
};
const complain = (text: string): void => {
  process.stderr.write(`${text}\n`);
};

/** Runs a command and says why it failed. Returns whether it succeeded. */
async function attempt(
  words: readonly string[],
  session: Session,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await run(words, session, { print, signal });
    return true;
  } catch (error) {
    complain(describe(error));
    return false;
  }
}

/** One command of a pipe after the other; the first that fails is the last. Returns whether all succeeded. */
async function runLines(session: Session, signal: AbortSignal): Promise<boolean> {
  for await (const line of createInterface({ input: process.stdin, terminal: false })) {
    const words = wordsOf(line);
    if (words[0] === 'exit' || words[0] === 'quit') return true;
    const isCommand = words[0] !== undefined && !words[0].startsWith('#');
    if (isCommand && !(await attempt(words, session, signal))) return false;
  }
  return true;
}

async function main(): Promise<number> {
  const words = process.argv.slice(2);
  if (words[0] === 'help' || words[0] === '--help') {
    print(helpOn(words.slice(1)));
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
  const succeeded =
    words.length > 0
      ? await attempt(words, session, interrupted.signal)
      : await runLines(session, interrupted.signal);
  await session.leave();
  return succeeded ? 0 : 1;
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    const canBeMended = error instanceof CannotJoin || error instanceof SettingsInvalid;
    complain(canBeMended ? error.message : ((error as Error).stack ?? String(error)));
    process.exit(1);
  },
);
