/** The last step of a restore, which a start makes where the restore was cut off before it. */
import { chownSync, copyFileSync, existsSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { flushDirectory } from '../backup/durable-files.ts';
import type { ServerPaths, Say } from './server-paths.ts';

/**
 * Puts restored files in the place of the server's, whose own are kept beside them. Each step finds
 * what the previous one has left, so that DATA_DIR is never without a server: a start would make an
 * empty one. Returns where the files of before are, if there were any.
 */
export function putInPlace(
  { home, cluster, passwordFile, account }: ServerPaths,
  say: Say,
): string | undefined {
  const restored = join(home, 'postgres.restored');
  if (!existsSync(restored)) return undefined;
  const time = new Date().toISOString().replaceAll(/[:.]/g, '-');
  const aside = existsSync(cluster) ? `${cluster}.before-restore-${time}` : undefined;
  if (aside !== undefined) {
    // With the password that fits them.
    if (existsSync(passwordFile)) copyFileSync(passwordFile, join(cluster, 'postgres.password'));
    renameSync(cluster, aside);
    say(`The previous files are in ${aside}. Remove them once they are no longer needed.`);
  }
  const password = join(restored, 'postgres.password');
  if (existsSync(password)) {
    if (account.uid !== undefined) chownSync(password, account.uid, account.gid!);
    renameSync(password, passwordFile);
  }
  renameSync(restored, cluster);
  flushDirectory(home);
  return aside;
}
