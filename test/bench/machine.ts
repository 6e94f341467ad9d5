/**
 * The machine: servers that are compared take turns on one core; the load and the servers behind
 * them have the other.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { guard } from '../support/servers.ts';

export type Core = '0' | '1' | '0,1';
export const serverCore: Core = '0';
export const loadCore: Core = '1';
/** For what is not compared process by process. */
export const bothCores: Core = '0,1';
export const root = fileURLToPath(new URL('../..', import.meta.url));
export const machine = `${cpus().length} cores, ${cpus()[0]?.model ?? 'unknown'}, Node ${process.version}`;

const haltPoll = '/sys/module/haltpoll/parameters/guest_halt_poll_ns';
/**
 * In a virtual machine, waking a halted core costs the sender several microseconds, about as much
 * as an answer takes, and it happens more often the less the other side has to do. So idle cores
 * poll for a while before they halt, where the kernel can do that and we are root. Returns how to
 * undo it; the end of the process undoes it too.
 */
export function keepCoresAwake(): () => void {
  if (!existsSync(haltPoll) || process.getuid?.() !== 0) {
    process.stderr.write(
      'Idle cores halt while HTTP is measured: the slower of two servers pays for waking the load generator.\n',
    );
    return () => {
      /* Nothing was changed. */
    };
  }
  const before = readFileSync(haltPoll, 'utf8');
  const restore = (): void => writeFileSync(haltPoll, before);
  process.once('exit', restore);
  writeFileSync(haltPoll, '200000');
  return restore;
}

/** Binds a process to a core: all its threads and children, and whatever they start from now on. */
export function pin(pid: number, core: Core): void {
  for (const each of [pid, ...childrenOf(pid)])
    execFileSync('taskset', ['-a', '-c', '-p', core, String(each)], { stdio: 'ignore' });
}

export const childrenOf = (pid: number): number[] => {
  try {
    return execFileSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' })
      .trim()
      .split('\n')
      .map(Number);
  } catch {
    return [];
  }
};

export interface Program {
  readonly pid: number;
  /** The first line that it printed. */
  readonly said: string;
  /** The lines after it. */
  readonly lines: AsyncIterator<string>;
  readonly stop: () => Promise<void>;
}

/**
 * A peer or a caller of ours, in a process of its own; resolves once it has printed its first line.
 */
export async function startProgram(
  file: string,
  args: readonly string[],
  core: Core,
  env: Readonly<Record<string, string>> = {},
): Promise<Program> {
  const child = spawn('taskset', ['-c', core, process.execPath, file, ...args], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env.PATH, ...env },
  });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  child.once('exit', guard(child.pid!, 'KILL'));
  const first = await lines.next();
  if (first.done) throw new Error(`${file} ended before it was ready`);
  return {
    pid: child.pid!,
    said: first.value,
    lines,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill();
      await once(child, 'exit');
    },
  };
}

const ticksPerSecond = 100;
/** Processor time that a process has used so far, in milliseconds (proc(5), utime and stime). */
export const cpuMs = (pid: number): number => ticksMs(pid, 11);

/**
 * The same of a process with its children, also those that have ended (cutime and cstime), such as
 * idle connections that were closed.
 */
export const cpuMsOfFamily = (pid: number): number =>
  [pid, ...childrenOf(pid)].reduce((sum, each) => sum + cpuMs(each), ticksMs(pid, 13));

/** Of a field of /proc/<pid>/stat and the one after it, counted after the command's name. */
function ticksMs(pid: number, field: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return ((Number(fields[field]) + Number(fields[field + 1])) * 1000) / ticksPerSecond;
}

export const rssMiB = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024;
