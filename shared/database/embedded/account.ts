/** As whom PostgreSQL runs where Strata runs as root, which PostgreSQL itself refuses to do. */
import { execFileSync, spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CannotStart } from '../../process/cannot-start.ts';
import { environment, type Account, type ServerPaths } from './server-paths.ts';

/**
 * The owner of the data; where there is none yet, the user `postgres`, which is made if it is
 * missing.
 */
export function accountToRunAs(cluster: string): Account {
  if (process.getuid?.() !== 0) return {};
  const owner = statSync(cluster, { throwIfNoEntry: false });
  if (owner && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid };
  try {
    return userPostgres();
  } catch {
    try {
      makeUserPostgres();
      return userPostgres();
    } catch (error) {
      throw new CannotStart(
        'PostgreSQL does not run as root, and the user postgres cannot be made. Make it, run Strata as another user, or give DATABASE_URL.',
        { cause: error },
      );
    }
  }
}

/** Throws where there is no such user. */
function userPostgres(): Account {
  const id = (flag: '-u' | '-g'): number => {
    const printed = execFileSync('id', [flag, 'postgres'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return Number(printed);
  };
  return { uid: id('-u'), gid: id('-g') };
}

function makeUserPostgres(): void {
  const options = ['--system', '--user-group', '--no-create-home'];
  execFileSync('useradd', [...options, 'postgres'], { stdio: 'ignore' });
}

/**
 * Throws, with the remedy, where the account may not enter DATA_DIR or the directory of the
 * programs.
 */
export function assertReachable({ home, binaries, account }: ServerPaths): void {
  if (account.uid === undefined) return;
  const needed = [
    { path: home, remedy: 'set DATA_DIR to another directory' },
    { path: join(binaries, 'bin', 'postgres'), remedy: 'move the project elsewhere' },
  ];
  for (const { path, remedy } of needed) {
    const closed = firstClosed(path, account);
    if (closed === '') continue;
    throw new CannotStart(
      `As root, Strata runs PostgreSQL as user ${account.uid}, who may not enter ${closed}. ` +
        `Open it (chmod o+x), ${remedy}, run Strata as another user, or give DATABASE_URL.`,
    );
  }
}

/**
 * The first directory on the way to the path that the account may not enter, or the path itself;
 * empty where there is none. Asked of the kernel by a process of that account, because permission
 * bits alone do not tell what access lists allow.
 */
export function firstClosed(path: string, account: Account): string {
  const script = 'for each; do [ -x "$each" ] || { printf %s "$each"; exit; }; done';
  const { stdout } = spawnSync('/bin/sh', ['-c', script, 'sh', ...wayTo(path)], {
    ...account,
    env: environment,
    cwd: '/',
    encoding: 'utf8',
  });
  return stdout;
}

/** From the root down to the path itself. */
function wayTo(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [path] : [...wayTo(parent), path];
}
