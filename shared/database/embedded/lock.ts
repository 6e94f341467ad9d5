/** One Strata at a time uses a DATA_DIR. */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { CannotStart } from '../../process/cannot-start.ts';

/** SQLITE_BUSY, https://sqlite.org/rescode.html#busy */
const busy = 5;

/** Keeps the lock files' objects from being collected, which would release the locks. */
const taken = new Set<DatabaseSync>();

/**
 * Takes the lock, and returns how to release it. It is SQLite's lock on a file, which the kernel
 * holds: it ends with its process, however that ends, and a process that happens to get the same id
 * later does not hold it. `strata.lock` only names the holder.
 */
export function takeLock(home: string): () => void {
  const lock = new DatabaseSync(join(home, 'lock.sqlite'), { timeout: 0 });
  const holderFile = join(home, 'strata.lock');
  try {
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (error) {
    lock.close();
    if ((error as { errcode?: number }).errcode !== busy) throw error;
    const pid = existsSync(holderFile) ? readFileSync(holderFile, 'utf8') : 'unknown';
    throw new CannotStart(
      `Another Strata (process ${pid}) uses ${home}. Stop it, or give this one another DATA_DIR.`,
      { cause: error },
    );
  }
  taken.add(lock);
  writeFileSync(holderFile, String(process.pid));
  return () => {
    rmSync(holderFile, { force: true });
    lock.close();
    taken.delete(lock);
  };
}
