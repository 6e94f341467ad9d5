/**
 * The change feed and the caching leases, in the database beside the commits.
 *
 * The feed is read by transaction id, not by a sequence: a slow transaction that holds a lower id commits later and would be
 * skipped by `max(id)`. A poll takes every change visible in its snapshot with id >= cursor, and moves the cursor to the
 * snapshot's xmin, below which no transaction can still commit. What lies between is read again; dropping twice is harmless.
 * (PostgreSQL: "System Information Functions", pg_current_snapshot.)
 */
import type { DataSource } from 'typeorm';
import type { Change } from '../../commits/commit.ts';

export interface Poll {
  readonly cursor: string;
  readonly reset: boolean;
  readonly changes: Change[];
}

/** Changes are kept this long; a node that was away longer starts with empty caches. */
const retentionMinutes = 15;

export function createFeed(db: DataSource, fenceMs: number) {
  return {
    /**
     * Renews the lease first and reads afterwards: a writer that does not see the lease has committed before this read, which
     * then sees its change.
     */
    async poll(nodeId: string, cursor: string | null): Promise<Poll> {
      await db.query(
        `INSERT INTO strata.leases (node_id, cursor, renewed_at) VALUES ($1, COALESCE($2::xid8, '0'::xid8), clock_timestamp())
         ON CONFLICT (node_id) DO UPDATE SET cursor = excluded.cursor, renewed_at = excluded.renewed_at`,
        [nodeId, cursor],
      );
      const [row] = await db.query<{ cursor: string; known: boolean; changes: Change[] }[]>(
        `SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS cursor,
           COALESCE($1::xid8 <= pg_snapshot_xmin(pg_current_snapshot())
             AND $1::xid8 > (SELECT pruned FROM strata.feed_state), false) AS known,
           COALESCE((SELECT json_agg(json_build_object('id', id::text, 'scope', scope, 'revision', revision, 'keys', keys) ORDER BY id)
             FROM strata.changes WHERE id >= $1::xid8), '[]') AS changes`,
        [cursor],
      );
      return row!.known
        ? { cursor: row!.cursor, reset: false, changes: row!.changes }
        : { cursor: row!.cursor, reset: true, changes: [] };
    },

    async leave(nodeId: string): Promise<void> {
      await db.query('DELETE FROM strata.leases WHERE node_id = $1', [nodeId]);
    },

    /** Nodes that may still serve what was cached before change `id`: their lease is valid and their cursor not past it. */
    async holders(id: string): Promise<string[]> {
      const rows = await db.query<{ node_id: string }[]>(
        `SELECT node_id FROM strata.leases
         WHERE cursor <= $1::xid8 AND renewed_at > clock_timestamp() - make_interval(secs => $2::float8 / 1000)`,
        [id, fenceMs],
      );
      return rows.map((row) => row.node_id);
    },

    async prune(): Promise<void> {
      await db.query(
        `WITH gone AS (
           DELETE FROM strata.changes WHERE created_at < clock_timestamp() - make_interval(mins => $1)
             AND id < pg_snapshot_xmin(pg_current_snapshot()) RETURNING id
         ), stale AS (DELETE FROM strata.leases WHERE renewed_at < clock_timestamp() - make_interval(mins => $1))
         UPDATE strata.feed_state SET pruned = GREATEST(pruned, (SELECT max(id) FROM gone)) WHERE EXISTS (SELECT FROM gone)`,
        [retentionMinutes],
      );
    },
  };
}
export type Feed = ReturnType<typeof createFeed>;
