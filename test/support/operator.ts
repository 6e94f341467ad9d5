/** The operator's console as a process of its own. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { inherited } from './servers.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const entry = 'cli/bus/operator.ts';

export interface Said {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** With arguments one command; without, what a pipe brings is `input`. */
export async function operator(
  environment: Record<string, string>,
  args: readonly string[],
  input = '',
): Promise<Said> {
  const child = spawn(process.execPath, [entry, ...args], {
    cwd: root,
    env: { ...inherited(), ...environment },
  });
  const said = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said.out += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said.err += text;
  });
  child.stdin.end(input);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, ...said };
}

export interface Prompt {
  /** Types a line and returns what is shown until the prompt is there again. */
  readonly type: (line: string) => Promise<string>;
  /** Presses keys and returns what is shown until `pattern` is. */
  readonly press: (keys: string, pattern: RegExp) => Promise<string>;
  /** Resolves with the exit code. */
  readonly ended: Promise<number | null>;
  readonly kill: () => void;
}

/** The console on a terminal, which `script` of util-linux makes. Resolves when it prompts. */
export async function operatorPrompt(environment: Record<string, string>): Promise<Prompt> {
  const command = `stty cols 500 && exec "${process.execPath}" ${entry}`;
  const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
    cwd: root,
    env: { ...inherited(), TERM: 'xterm', ...environment },
  });
  const ended = once(child, 'close').then(([code]) => code as number | null);
  let shown = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    shown += stripVTControlCharacters(text).replaceAll('\r', '');
  });

  async function shownUntil(pattern: RegExp): Promise<string> {
    const until = Date.now() + 120_000;
    while (!pattern.test(shown)) {
      if (Date.now() > until) throw new Error(`${String(pattern)} is not shown, but: ${shown}`);
      await delay(20);
    }
    return shown;
  }
  async function press(keys: string, pattern: RegExp): Promise<string> {
    shown = '';
    child.stdin.write(keys);
    return shownUntil(pattern);
  }
  await shownUntil(/strata> $/);
  return {
    press,
    type: (line) => press(`${line}\r`, /\n([^]*\n)?strata> $/),
    ended,
    kill: () => child.kill('SIGKILL'),
  };
}
