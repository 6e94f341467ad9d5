/**
 * The command line `strata`, as a process of its own out of the installed package, with nothing of
 * this process's environment.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { commandFirst, table } from '../../cli/https/table.ts';
import { nodes, type InstalledClient } from './client-package.ts';

const failed = 1;
/** The machine's own where that is another one: it may be the oldest that the package supports. */
const machines = nodes().at(-1)!;
/** Where Node keeps what it has compiled, so that a process starts sooner. */
const { NODE_COMPILE_CACHE } = process.env;
const compiled = NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE };

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export interface CommandLine {
  /** A folder of this command line's own, which is also its home. */
  readonly folder: string;
  /** The names of the commands that were run and did not fail. */
  readonly done: Set<string>;
  readonly run: (args: readonly string[], more?: Started) => Promise<Ended>;
  readonly remove: () => void;
}
interface Started {
  readonly environment?: Record<string, string>;
  readonly input?: string;
  /** The path of a Node; the machine's own by default. */
  readonly node?: string;
  /** No one reads the answer, as after a pipe to a program that has ended. */
  readonly isUnread?: boolean;
}

export function commandLine(
  { path }: InstalledClient,
  environment: Record<string, string>,
): CommandLine {
  const folder = mkdtempSync(join(tmpdir(), 'strata-cli-'));
  const done = new Set<string>();
  const bin = join(path, '../../.bin/strata');
  return {
    folder,
    done,
    async run(args, started = {}) {
      const { environment: more = {}, input = '', node = machines, isUnread } = started;
      const child = spawn(node, [bin, ...args], {
        cwd: folder,
        env: { HOME: folder, ...compiled, ...environment, ...more },
      });
      const said = { out: '', err: '' };
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        said.out += text;
      });
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        said.err += text;
      });
      if (isUnread) child.stdout.destroy();
      child.stdin.on('error', () => {}).end(input);
      const [code] = (await once(child, 'close')) as [number | null];
      const command = table.commandAt(commandFirst(args));
      const isHelp = args.includes('--help');
      if (command && code !== failed && !isHelp) done.add(command.name);
      return { code, ...said };
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
