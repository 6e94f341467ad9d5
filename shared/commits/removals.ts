/**
 * Removals, whose repetition finds nothing to remove: the request before may have removed it whose
 * commit was lost to its writer. Then no node was notified, and some serve it until they poll.
 */
import type { DataSource } from 'typeorm';
import type { Request } from '../contract-runtime/request.ts';
import { codeOf } from '../errors.ts';
import { commitChange, newestChanges, type Change, type Committing, type Work } from './commit.ts';

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

/** Commits a removal, and drops its keys again where that throws `not_found`. */
export async function commitRemoval(
  db: DataSource,
  request: Request,
  scope: string,
  remove: Work<void>,
): Promise<void> {
  try {
    await commitChange(db, request, scope, remove);
  } catch (error) {
    if (codeOf(error) === 'not_found') await dropAgain(db, request, scope, request.keys);
    throw error;
  }
}
