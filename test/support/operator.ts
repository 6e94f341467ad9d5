import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

export interface Said {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** The operator's console as a process of its own: with arguments one command, with `input` what a pipe brings. */
export async function operator(
  environment: Record<string, string>,
  args: readonly string[],
  input = '',
): Promise<Said> {
  const { PATH, HOME } = process.env;
  const child = spawn(process.execPath, ['gateway/repl/operator.ts', ...args], {
    cwd: root,
    env: { PATH, HOME, ...environment },
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
