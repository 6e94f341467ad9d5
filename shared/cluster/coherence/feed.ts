/**
 * The change feed and the caching leases, in the database beside the commits. Used by coherence.ts, on nodes without a database
 * over the bus.
 *
 * The feed is read by snapshot, not by a sequence: a slow transaction that got a lower id may commit later, and whoever reads up to
 * `max(id)` would skip it. A cursor is the snapshot of the poll before, so that a poll takes exactly the changes that were not
 * visible then, however long other transactions of the server stay open. (PostgreSQL manual, "Transaction ID and Snapshot
 * Information Functions".)
 *
 * The cursor ends at the poll's own transaction, which renewed the lease and is on disk. A transaction beyond it may have ended
 * without leaving a trace there, and after a crash PostgreSQL hands its id out again. Changes in between are read again by the next
 * poll, and applying a change twice is harmless.
 */
import type { ClientBase } from 'pg';
import type { DataSource } from 'typeorm';
import type { ParamsOf, ResultOf } from '../../contracts/index.ts';
import type { KnownRevision } from './known-revisions.ts';

export type Poll = ParamsOf<'feed.poll'>['body'];
export type PollResult = ResultOf<'feed.poll'>;
export type Leave = ParamsOf<'feed.leave'>['body'];

/** A row of the lease table. */
export interface Lease {
  /** The process that holds it. Two processes with one NODE_ID are two holders. */
  readonly holder: string;
  /** Made anew by each poll. */
  readonly token: string;
  /** T of the holder, in milliseconds: its lease lasts no longer than that after the poll began. */
  readonly fenceMs: number;
  /** The holder's cursor is past the change that was asked for. */
  readonly hasRead: boolean;
}

export interface LeaseTableRead {
  readonly leases: readonly Lease[];
  /** As in `PollResult`. */
  readonly server: string;
}

/** Changes are kept this long. A node that was away for longer is told that changes are missing. */
const retentionMinutes = 15;

/**
 * Which server answered: the database cluster, its timeline and its start. It changes when a standby takes over, when a backup is
 * restored and when the server starts again.
 */
const server = `(SELECT system_identifier FROM pg_control_system())::text
  || ' ' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
  || ' ' || extract(epoch FROM pg_postmaster_start_time())::text`;

/** Each write waits for this, and its plan takes longer than its work: with a name, a connection plans it once. */
const leaseTable = {
  name: 'strata_lease_table',
  text: `SELECT ${server} AS server, COALESCE((
     SELECT json_agg(json_build_object('holder', holder, 'token', token, 'fenceMs', fence_ms,
       'hasRead', COALESCE(pg_visible_in_snapshot($1::xid8, cursor), false)))
     FROM strata.leases
   ), '[]') AS leases`,
};

export function createFeed(db: DataSource) {
  /** Both statements of a poll go to the same server: a connection never changes it. */
  async function onOneConnection<T>(work: (query: DataSource['query']) => Promise<T>): Promise<T> {
    const runner = db.createQueryRunner();
    try {
      return await work((sql: string, parameters?: unknown[]) => runner.query(sql, parameters));
    } finally {
      await runner.release();
    }
  }

  return {
    /**
     * Renews the lease and reads the changes since the cursor. In this order: a writer that does not see the lease has committed
     * before the read, which then sees its change.
     *
     * The lease shows the cursor only where it is of this server. A server that was restored, or recovered from a crash, gives
     * transaction ids out again, and a cursor from before would say of those that their changes have been read.
     */
    poll: ({
      holder,
      token,
      fence_ms: fenceMs,
      cursor,
      server: before,
    }: Poll): Promise<PollResult> =>
      onOneConnection(async (query) => {
        const [renewal] = await query<{ id: string; previous_token: string | null }[]>(
          `WITH before AS (SELECT token FROM strata.leases WHERE holder = $1),
             renewed AS (
               INSERT INTO strata.leases (holder, token, fence_ms, cursor)
               VALUES ($1, $2, $3, CASE WHEN $5 = ${server} THEN $4::pg_snapshot END)
               ON CONFLICT (holder) DO UPDATE
               SET token = excluded.token, fence_ms = excluded.fence_ms, cursor = excluded.cursor
               RETURNING pg_current_xact_id()::text AS id
             )
           SELECT id, (SELECT token FROM before) AS previous_token FROM renewed`,
          [holder, token, fenceMs, cursor, before ?? null],
        );
        const { id: ownId, previous_token } = renewal!;
        const [read] = await query<Omit<PollResult, 'previous_token'>[]>(
          `SELECT concat_ws(':', LEAST(pg_snapshot_xmin(now), own), own,
               COALESCE((SELECT string_agg(x::text, ',' ORDER BY x) FROM pg_snapshot_xip(now) x WHERE x < own), '')) AS cursor,
             ${server} AS server,
             COALESCE(pg_snapshot_xmax($1::pg_snapshot) <= own
               AND pg_snapshot_xmax($1::pg_snapshot) > pruned
               AND NOT EXISTS (
                 SELECT FROM pg_snapshot_xip($1::pg_snapshot) x
                 WHERE x <= pruned AND pg_visible_in_snapshot(x, now)
                   AND NOT EXISTS (SELECT FROM strata.changes WHERE id = x)
               ), false) AS complete,
             COALESCE((
               SELECT json_agg(json_build_object('id', id::text, 'scope', scope, 'revision', revision, 'keys', keys) ORDER BY id, revision)
               FROM strata.changes
               WHERE id >= pg_snapshot_xmax($1::pg_snapshot) OR id = ANY (ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot)))
             ), '[]') AS changes
           FROM (SELECT pg_current_snapshot() AS now, $2::xid8 AS own, pruned FROM strata.feed_state) AS state`,
          [cursor, ownId],
        );
        // Not complete: there is no cursor, or it is from another database, or changes after it are pruned. A transaction that was
        // open at the cursor and has ended counts as pruned where it left no change, because one that was removed looks the same.
        const { complete, changes } = read!;
        return { ...read!, changes: complete ? changes : [], previous_token };
      }),

    /** Gives the lease back that one of these polls made, however late this arrives: not one of a later poll. */
    async leave({ holder, tokens }: Leave): Promise<void> {
      await db.query('DELETE FROM strata.leases WHERE holder = $1 AND token = ANY ($2)', [
        holder,
        tokens,
      ]);
    },

    /** All leases, good or not: only whoever watches the table can tell. `changeId` may be '0'. */
    async leases(changeId: string): Promise<LeaseTableRead> {
      const runner = db.createQueryRunner();
      try {
        const client: ClientBase = await runner.connect();
        const { rows } = await client.query<LeaseTableRead>({ ...leaseTable, values: [changeId] });
        return rows[0]!;
      } finally {
        await runner.release();
      }
    },

    /**
     * Never gives those of these revisions out again that a restore or a failover has lost: the counter of their scope goes on after the
     * newest of them, and after one more, so that nothing that continues from a lost revision fits what follows. A revision counts as
     * lost where the counter is lower, or where another transaction has been given it since.
     */
    async skipLost(known: readonly KnownRevision[]): Promise<void> {
      // Two joins, since one with OR would look through all changes for each revision.
      const lost = await db.query<(KnownRevision & { was_given_again: boolean })[]>(
        `WITH known AS (SELECT * FROM json_to_recordset($1::json) AS known (scope text, revision int8, id text))
         SELECT known.*, false AS was_given_again FROM known JOIN strata.revisions r USING (scope)
         WHERE r.revision < known.revision
         UNION ALL
         SELECT known.*, true FROM known JOIN strata.changes c USING (scope, revision) WHERE c.id::text <> known.id`,
        [JSON.stringify(known)],
      );
      // One by one, since whoever locks several scopes at once may wait for a writer who waits for one of them.
      for (const { scope, revision, was_given_again: wasGivenAgain } of lost)
        await db.query(
          `UPDATE strata.revisions SET revision = GREATEST(revision, $2) + 1
           WHERE scope = $1 AND (revision < $2 OR $3)`,
          [scope, revision, wasGivenAgain],
        );
    },

    /**
     * Removes changes older than the retention, and notes up to where, so that a poll from before is told that changes are missing.
     * Removes the given leases, unless they were renewed meanwhile.
     */
    async prune(ended: readonly Pick<Lease, 'holder' | 'token'>[]): Promise<void> {
      await db.query(
        `WITH removed AS (
           DELETE FROM strata.changes WHERE created_at < clock_timestamp() - make_interval(mins => $1) RETURNING id
         ), ended AS (
           DELETE FROM strata.leases l USING json_to_recordset($2::json) AS e (holder text, token text)
           WHERE l.holder = e.holder AND l.token = e.token
         )
         UPDATE strata.feed_state SET pruned = GREATEST(pruned, (SELECT max(id) FROM removed)) WHERE EXISTS (SELECT FROM removed)`,
        [retentionMinutes, JSON.stringify(ended)],
      );
    },
  };
}
export type Feed = ReturnType<typeof createFeed>;
