/**
 * The change feed and the caching leases, in the database beside the commits. Used by coherence.ts, on nodes without a database
 * over the bus.
 *
 * The feed is read by transaction id, not by a sequence: a slow transaction that got a lower id may commit later, and whoever reads
 * up to `max(id)` would skip it. A poll takes every change visible in its snapshot with id >= cursor, and moves the cursor to the
 * snapshot's xmin: every transaction below that has ended. Changes at or above it are read again by the next poll, and applying a
 * change twice is harmless. (PostgreSQL manual, "System Information Functions", pg_current_snapshot.)
 */
import type { DataSource } from 'typeorm';
import type { Change } from '../../commits/commit.ts';

export interface PollResult {
  /** For the next poll: a transaction id as a decimal number. */
  readonly cursor: string;
  /** Changes may have been missed since the last poll: the node must empty its caches. `changes` is empty then. */
  readonly reset: boolean;
  readonly changes: Change[];
}

/** Changes and ended leases are kept this long. A node that was away for longer is told to reset. */
const retentionMinutes = 15;

export function createFeed(db: DataSource, fenceMs: number) {
  return {
    /**
     * Renews the node's lease and reads the changes since the cursor. In this order: a writer that does not see the lease has
     * committed before the read, which then sees its change.
     */
    async poll(nodeId: string, cursor: string | null): Promise<PollResult> {
      await db.query(
        `INSERT INTO strata.leases (node_id, cursor, renewed_at) VALUES ($1, COALESCE($2::xid8, '0'::xid8), clock_timestamp())
         ON CONFLICT (node_id) DO UPDATE SET cursor = excluded.cursor, renewed_at = excluded.renewed_at`,
        [nodeId, cursor],
      );
      const [row] = await db.query<{ cursor: string; complete: boolean; changes: Change[] }[]>(
        `SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS cursor,
           COALESCE($1::xid8 <= pg_snapshot_xmin(pg_current_snapshot())
             AND $1::xid8 > (SELECT pruned FROM strata.feed_state), false) AS complete,
           COALESCE((SELECT json_agg(json_build_object('id', id::text, 'scope', scope, 'revision', revision, 'keys', keys) ORDER BY id)
             FROM strata.changes WHERE id >= $1::xid8), '[]') AS changes`,
        [cursor],
      );
      // Not complete: changes after the cursor are pruned, or the cursor is ahead of this database, or there is none.
      const { cursor: next, complete, changes } = row!;
      return { cursor: next, reset: !complete, changes: complete ? changes : [] };
    },

    /** Gives the lease back. */
    async leave(nodeId: string): Promise<void> {
      await db.query('DELETE FROM strata.leases WHERE node_id = $1', [nodeId]);
    },

    /** Nodes that may still serve what was cached before the change: their lease is valid and their cursor not past it. */
    async leaseHolders(changeId: string): Promise<string[]> {
      const rows = await db.query<{ node_id: string }[]>(
        `SELECT node_id FROM strata.leases
         WHERE cursor <= $1::xid8 AND renewed_at > clock_timestamp() - make_interval(secs => $2::float8 / 1000)`,
        [changeId, fenceMs],
      );
      return rows.map((row) => row.node_id);
    },

    /** Removes what is older than the retention, and notes up to where, so that a poll from before it is told to reset. */
    async prune(): Promise<void> {
      await db.query(
        `WITH removed AS (
           DELETE FROM strata.changes WHERE created_at < clock_timestamp() - make_interval(mins => $1)
             AND id < pg_snapshot_xmin(pg_current_snapshot()) RETURNING id
         ), ended_leases AS (DELETE FROM strata.leases WHERE renewed_at < clock_timestamp() - make_interval(mins => $1))
         UPDATE strata.feed_state SET pruned = GREATEST(pruned, (SELECT max(id) FROM removed)) WHERE EXISTS (SELECT FROM removed)`,
        [retentionMinutes],
      );
    },
  };
}
export type Feed = ReturnType<typeof createFeed>;
