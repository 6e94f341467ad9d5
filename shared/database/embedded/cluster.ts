/** Makes PostgreSQL's data directory. */
import { execFile } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CannotStart, oneLine } from '../../process/cannot-start.ts';
import { environment, type ServerPaths, type Say } from './server-paths.ts';

export const isAbsentOrEmpty = (directory: string): boolean =>
  !existsSync(directory) || readdirSync(directory).length === 0;

/**
 * Makes the cluster beside its place and moves it there when it is complete, so that a start that
 * is killed leaves no half one.
 */
export async function makeCluster(paths: ServerPaths, say: Say): Promise<void> {
  const { home, cluster, passwordFile, account } = paths;
  const unfinished = `${cluster}.new`;
  await clearAway(home, cluster, unfinished);
  say(`Creates a PostgreSQL cluster in ${cluster}.`);
  mkdirSync(unfinished, { mode: 0o700 });
  rmSync(passwordFile, { force: true });
  writeFileSync(passwordFile, randomBytes(24).toString('base64url'), { mode: 0o600, flush: true });
  if (account.uid !== undefined) {
    chownSync(unfinished, account.uid, account.gid!);
    chownSync(passwordFile, account.uid, account.gid!);
  }
  await runInitdb(paths, unfinished);
  renameSync(unfinished, cluster);
}

/** Removes what starts that were cut off have left. */
async function clearAway(home: string, cluster: string, unfinished: string): Promise<void> {
  if (existsSync(unfinished)) renameSync(unfinished, `${cluster}.abandoned-${randomUUID()}`);
  const abandoned = readdirSync(home).filter((name) => name.startsWith('postgres.abandoned-'));
  for (const name of abandoned) {
    // Its initdb may have outlived its Strata and still add files for a moment.
    await rm(join(home, name), { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  }
}

async function runInitdb(
  { home, passwordFile, binaries, account }: ServerPaths,
  directory: string,
): Promise<void> {
  const flags = [
    // A relative path: an initdb that outlives us must not write into the directory of the same
    // name that a later start makes.
    ['-D', '.'],
    ['-U', 'strata'],
    ['--auth=scram-sha-256', `--pwfile=${passwordFile}`],
    // The order of C, on every machine alike, and upper and lower case of all scripts.
    ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'],
    ['--no-instructions'],
  ].flat();
  try {
    const options = { ...account, env: environment, cwd: directory };
    await promisify(execFile)(join(binaries, 'bin', 'initdb'), flags, options);
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    throw new CannotStart(
      `The embedded PostgreSQL cannot be created in ${home}: ${oneLine(stderr || message)}`,
      { cause: error },
    );
  }
}
