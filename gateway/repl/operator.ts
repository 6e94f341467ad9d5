/** The operator's console: `npm run repl` for a prompt, `npm run repl -- <command>` for one command, or commands from a pipe. */
import { createInterface } from 'node:readline';
import { callbackify } from 'node:util';
import { complete, describe, help, run } from './interpreter.ts';
import { CannotJoin, join, type Session } from './session.ts';
import { wordsOf } from './words.ts';
import { SettingsInvalid } from '../../shared/settings.ts';

const print = (line: string): void => {
  process.stdout.write(`${line}\n`);
};
const complain = (line: string): void => {
  process.stderr.write(`${line}\n`);
};

/** Whether it succeeded. */
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

/** Whether all commands succeeded. From a pipe the first that fails is the last. */
async function converse(session: Session): Promise<boolean> {
  const interactive = process.stdin.isTTY === true;
  const state = { running: undefined as AbortController | undefined };
  const lines = createInterface({
    input: process.stdin,
    terminal: interactive,
    prompt: 'strata> ',
    ...(interactive ? { output: process.stdout } : {}),
    completer: callbackify((line: string) => complete(line, session)),
  });
  lines.on('SIGINT', () => {
    if (state.running) state.running.abort();
    else lines.close();
  });
  if (interactive) {
    print(`Joined as operator ${session.operator}. help lists the commands.`);
    lines.prompt();
  }
  for await (const line of lines) {
    const words = wordsOf(line);
    if (words[0] === 'exit' || words[0] === 'quit') break;
    if (words.length > 0 && !line.trimStart().startsWith('#')) {
      state.running = new AbortController();
      if (!(await attempt(words, session, state.running.signal)) && !interactive) return false;
      state.running = undefined;
    }
    if (interactive) lines.prompt();
  }
  return true;
}

async function main(): Promise<number> {
  const given = process.argv.slice(2);
  if (given[0] === 'help' || given[0] === '--help') {
    print(help(given.slice(1)));
    return 0;
  }
  const session = await join();
  const interrupted = new AbortController();
  if (given.length > 0) process.once('SIGINT', () => interrupted.abort());
  const succeeded =
    given.length > 0 ? await attempt(given, session, interrupted.signal) : await converse(session);
  await session.leave();
  return succeeded ? 0 : 1;
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    complain(
      error instanceof CannotJoin || error instanceof SettingsInvalid
        ? error.message
        : ((error as Error).stack ?? String(error)),
    );
    process.exit(1);
  },
);
