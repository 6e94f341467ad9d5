/**
 * What an earlier start that was killed has left: a server that still runs, or a pid file that
 * names somebody else.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CannotStart } from '../../process/cannot-start.ts';
import type { Say } from './server-paths.ts';

/** A server that has not ended by then after SIGINT gets SIGQUIT. */
const patienceMs = 10_000;

/**
 * Stops a server that outlived its Strata, because it holds the cluster. PostgreSQL refuses to
 * start while its pid file names a live process. Where that is another program's, the file gets our
 * own pid, which PostgreSQL disregards as its parent's; it still refuses while the shared memory
 * named in the file is in use.
 */
export async function stopLeftOver(cluster: string, say: Say): Promise<void> {
  const file = join(cluster, 'postmaster.pid');
  if (!existsSync(file)) return;
  const [first = '', ...rest] = readFileSync(file, 'utf8').split('\n');
  const pid = Number(first);
  const namesProcess = pid > 0;
  if (!namesProcess) {
    rmSync(file, { force: true });
    return;
  }
  if (isServerOf(cluster, pid)) {
    say(`Stops the PostgreSQL (process ${pid}) that an earlier Strata left behind.`);
    await stop(cluster, pid);
    return;
  }
  const isAlive = commandLineOf(pid) !== '';
  if (isAlive) writeFileSync(file, [process.pid, ...rest].join('\n'));
}

/** Throws where a PostgreSQL that no Strata has started uses the cluster. */
export function assertNotOfOthers(cluster: string): void {
  const file = join(cluster, 'postmaster.pid');
  if (!existsSync(file)) return;
  const pid = Number(readFileSync(file, 'utf8').split('\n')[0]);
  const isOfOthers = /\bpostgres\b/.test(commandLineOf(pid)) && !isServerOf(cluster, pid);
  if (pid > 0 && isOfOthers)
    throw new CannotStart(`A PostgreSQL (process ${pid}) uses ${cluster}. Stop it first.`);
}

async function stop(cluster: string, pid: number): Promise<void> {
  send(pid, 'SIGINT');
  const patientUntil = Date.now() + patienceMs;
  let isUrged = false;
  while (isServerOf(cluster, pid)) {
    if (!isUrged && Date.now() > patientUntil) {
      send(pid, 'SIGQUIT');
      isUrged = true;
    }
    await delay(30);
  }
}

/** By its first arguments, as server.ts gives them. */
const isServerOf = (cluster: string, pid: number): boolean =>
  commandLineOf(pid).includes(`postgres -D ${cluster} -p `);

/** Empty where there is no such process. */
function commandLineOf(pid: number): string {
  try {
    // Not every Linux has ps.
    if (process.platform === 'linux')
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
    return execFileSync('ps', ['-ww', '-o', 'args=', '-p', String(pid)], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
  } catch {
    return '';
  }
}

/** To a process that may have ended meanwhile. */
function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
