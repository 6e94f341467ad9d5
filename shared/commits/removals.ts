/**
 * Removals, whose repetition finds nothing to remove: the request before may have removed it whose
 * commit was lost to its writer. Then no node was notified, and some serve it until they poll.
 */
import type { DataSource } from 'typeorm';
import { codeOf } from '../errors.ts';
import { newestChanges, type Change, type Committing } from './commit.ts';

/** Publishes again what dropped one of the keys, where a node may have missed it. */
export async function dropAgain(
  db: DataSource,
  by: Committing,
  scope: string,
  keys: readonly string[],
): Promise<void> {
  const changes = await db.query<Change[]>(
    `SELECT id::text, scope, revision, keys
     FROM (SELECT * FROM strata.changes ORDER BY id DESC LIMIT ${newestChanges}) AS newest
     WHERE scope = $1 AND keys && $2
       AND created_at > clock_timestamp() - (SELECT max(fence_ms) FROM strata.leases) * interval '1 ms'`,
    [scope, keys],
  );
  by.committed.push(...changes);
}

/** Removes, and drops the keys again where that throws `not_found`, before the caller reads it. */
export async function removing(
  db: DataSource,
  by: Committing,
  scope: string,
  keys: readonly string[],
  remove: () => Promise<void>,
): Promise<void> {
  try {
    await remove();
  } catch (error) {
    if (codeOf(error) === 'not_found') await dropAgain(db, by, scope, keys);
    throw error;
  }
}
