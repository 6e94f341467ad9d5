/**
 * Which database the feed and all revisions are of, and what is done where another one answers: a
 * dump that was restored, a standby that took over, files that were put back.
 */
import { randomUUID } from 'node:crypto';
import type { ClientBase } from 'pg';
import type { Logger } from 'pino';
import type { ParamsOf } from '../contracts/index.ts';

type Poll = ParamsOf<'feed.poll'>['body'];

/**
 * Which server answers, and the last time at which revisions were raised: `Feed.meet`. It changes
 * when a standby takes over, when a backup is restored and when the server starts again. Of the row
 * `state`.
 */
export const server = `concat_ws(' ', state.revisions_from, strata.cluster(), extract(epoch FROM pg_postmaster_start_time()))`;

/** What is found when a database is met; see `verdictsSql`. */
interface Met {
  readonly is_known: boolean;
  readonly is_cluster: boolean;
  /** Nobody has met it: it was made a moment ago, or by a release before. */
  readonly is_new: boolean;
  readonly is_lost: boolean;
  readonly newest: number;
}

/**
 * What the polls `$1` and the database know of each other.
 *
 * | In            | What                                                                                   |
 * |---------------|----------------------------------------------------------------------------------------|
 * | here          | the server that answers; whether the feed and all revisions are of it                  |
 * | polls         | with `raised`, the last time that revisions were raised as their nodes know it         |
 * | found         | each with `answered_token`, of the last poll that its node has been answered according to the table, null where that does not say |
 * | lost          | whether this database lacks what some node has observed, and has not been raised since |
 *
 * A database lacks it where changes or a poll are from the future, where the table has an older poll
 * of a node than the node has the answer to, and where revisions were raised later than the
 * database says. A poll that arrives after a later one says nothing of that, nor does a lease that
 * was given back or pruned.
 *
 * `previous_token` is of the last poll that its holder has been answered, not always of the
 * previous one. A poll whose answer was lost has put its own token in place of what it found there,
 * and would hide from the next one that the database went back.
 */
export const verdictsSql = `here AS MATERIALIZED (
       SELECT ${server} AS server, strata.cluster() AS cluster, revisions_from AS raised, pruned, cluster = '' AS is_new,
         cluster = strata.cluster() AS is_cluster, cluster = strata.cluster() AND started = pg_postmaster_start_time() AS is_known
       FROM strata.feed_state state
     ),
     polls AS MATERIALIZED (
       SELECT *, split_part(server, ' ', 1)::int8 AS raised FROM json_to_recordset($1::json) AS poll
         (holder text, token text, ordinal int8, answered text, fence_ms int4, cursor pg_snapshot, server text)
     ),
     found AS MATERIALIZED (
       SELECT polls.*, CASE WHEN COALESCE(lease.token = answered, true) THEN lease.token ELSE lease.previous_token END AS answered_token,
         COALESCE(polls.ordinal >= lease.ordinal, true) AS is_in_time
       FROM polls LEFT JOIN strata.leases lease USING (holder)
     ),
     lost AS MATERIALIZED (
       SELECT pruned > own OR COALESCE((
         SELECT bool_or(raised > here.raised OR raised = here.raised AND (pg_snapshot_xmax(cursor) > own OR is_in_time AND answered <> answered_token))
         FROM found
       ), false) AS is_lost
       FROM here, pg_current_xact_id() AS own
     )`;

/** By so much at least, and to no less than the milliseconds since 1970. */
export const raisedBy = 1_000_000;

export interface MeetOptions {
  /** T of this node. */
  readonly fenceMs?: number;
  readonly log?: Logger;
}

/**
 * Returns whether the database was another one than the feed knew, or one that had started again
 * or gone back. Whoever comes first raises the revisions, and only where some may be lost.
 */
export async function meetOn(
  client: ClientBase,
  polls: readonly Poll[],
  { fenceMs: ownFenceMs = 0, log }: MeetOptions,
): Promise<boolean> {
  await client.query('BEGIN');
  try {
    await client.query('SELECT FROM strata.feed_state FOR UPDATE');
    const { rows } = await client.query<Met>(
      `WITH ${verdictsSql} SELECT here.*, is_lost, COALESCE((SELECT max(raised) FROM polls), 0) AS newest FROM here, lost`,
      [JSON.stringify(polls)],
    );
    const { is_known, is_lost, is_new, is_cluster, newest } = rows[0]!;
    const isMet = !is_known || is_lost;
    const mayLack = is_lost || !(is_cluster || is_new);
    const fenceMs = Math.max(ownFenceMs, ...polls.map((poll) => poll.fence_ms));
    if (mayLack) await raise(client, newest, fenceMs);
    if (isMet)
      await client.query(
        'UPDATE strata.feed_state SET cluster = strata.cluster(), started = pg_postmaster_start_time()',
      );
    await client.query('COMMIT');
    if (mayLack)
      log?.warn(
        'PostgreSQL lacks what was written before, as after a restore, a failover or a replacement; all revisions were raised, and nodes empty their caches',
      );
    return isMet;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

/**
 * Raises the revisions of all scopes, and forgets what nodes were told: each finds another server,
 * and begins again. By time, so that they are above all that were ever given out, also those of a
 * database that was raised before and is lost as a whole: no scope has a revision each
 * millisecond, on average. Writers wait for the lock.
 *
 * A node may have a lease that another server made and this one lacks. One that nobody renews
 * stands for all of these: writers wait for T, as for that of a process that is gone.
 */
async function raise(client: ClientBase, above: number, fenceMs: number): Promise<void> {
  await client.query('LOCK TABLE strata.revisions IN EXCLUSIVE MODE');
  await client.query(
    `UPDATE strata.feed_state SET pruned = '0', open_when_pruned = '{}',
       revisions_from = GREATEST(GREATEST(revisions_from, $1) + $2, floor(extract(epoch FROM clock_timestamp()) * 1000))`,
    [above, raisedBy],
  );
  await client.query(
    'UPDATE strata.revisions SET revision = GREATEST(revision + $1, (SELECT revisions_from FROM strata.feed_state))',
    [raisedBy],
  );
  await client.query('DELETE FROM strata.changes');
  await client.query(
    `WITH ended AS (DELETE FROM strata.leases RETURNING fence_ms)
     INSERT INTO strata.leases (holder, token, fence_ms)
     SELECT $1, $1, GREATEST($2, (SELECT max(fence_ms) FROM ended))`,
    [`leases of another server ${randomUUID()}`, fenceMs],
  );
}
