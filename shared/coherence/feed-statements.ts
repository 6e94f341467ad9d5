/** What the change feed asks PostgreSQL: feed.ts says why. */

/** Changes are kept this long. A node that was away for longer is told that changes are missing. */
export const retentionMinutes = 15;
/** Far more than are open at once. */
const maxOpenWhenPruned = 1000;
/** The id of no transaction, and greater than that of any. */
const beyondAll = 2n ** 64n - 1n;

/**
 * Which server answers, and the last time at which revisions were raised: `Feed.meet`. It changes
 * when a standby takes over, when a backup is restored and when the server starts again. Of the row
 * `state`.
 */
const server = `concat_ws(' ', state.revisions_from, strata.cluster(), extract(epoch FROM pg_postmaster_start_time()))`;

/**
 * Each write waits for this, and its plan takes longer than its work: with a name, a connection
 * plans it once.
 */
export const leaseTable = {
  name: 'strata_leases',
  text: `SELECT ${server} AS server, COALESCE((
     SELECT json_agg(json_build_object('holder', holder, 'token', token, 'fenceMs', fence_ms,
       'read', ARRAY(SELECT id::text FROM unnest($1::xid8[]) id WHERE pg_visible_in_snapshot(id, cursor))))
     FROM strata.leases
   ), '[]') AS leases FROM strata.feed_state state`,
};

/** What a poll has of its own. */
export interface Renewal {
  readonly holder: string;
  /** The transaction that renewed the lease, one for all polls of a batch. */
  readonly id: string;
  readonly server: string;
  readonly cluster: string;
}

/** What is found when a database is met; see `judged`. */
export interface Met {
  readonly is_known: boolean;
  readonly is_cluster: boolean;
  /** Nobody has met it: it was made a moment ago, or by a release before. */
  readonly is_new: boolean;
  readonly is_lost: boolean;
  readonly newest: number;
}

/** A standby refuses it, and a server that was made read-only. It changes nothing. */
export const probeWrite = `WITH nothing AS (DELETE FROM strata.leases WHERE false) SELECT strata.cluster() AS cluster`;

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
export const judged = `here AS MATERIALIZED (
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

/**
 * Renews the leases of the polls `$1`, in the order of holders, so that two transactions which renew
 * the same leases never wait for each other. A poll that comes after a later one of its holder
 * renews nothing: a node that stood still answers what it was asked then, and an older token in the
 * table would pass for a database that went back. Nothing is renewed in a database that is to be
 * met first.
 */
export const renewLeases = {
  name: 'strata_renew_leases',
  text: `WITH ${judged},
       renewed AS (
         INSERT INTO strata.leases AS lease (holder, token, previous_token, ordinal, fence_ms, cursor)
         SELECT holder, token, answered_token, ordinal, fence_ms, CASE WHEN found.server = here.server THEN cursor END
         FROM found, here, lost WHERE is_known AND NOT is_lost ORDER BY holder
         ON CONFLICT (holder) DO UPDATE
         SET token = excluded.token, previous_token = excluded.previous_token, ordinal = excluded.ordinal,
           fence_ms = excluded.fence_ms, cursor = excluded.cursor
         WHERE COALESCE(lease.ordinal <= excluded.ordinal, true)
         RETURNING holder, pg_current_xact_id()::text AS id
       )
     SELECT holder, id, server, cluster FROM renewed, here`,
};

/** By so much at least, and to no less than the milliseconds since 1970. */
export const raisedBy = 1_000_000;

/**
 * A node that has missed more begins with empty caches: to be told each change would take it
 * longer, and the feed's node as well.
 */
const maxMissed = 10_000;

/**
 * From each of the cursors `$1`, for polls that the transaction `$2` has renewed the leases of.
 * PostgreSQL expects a third of the feed after a cursor that it does not know. The limit tells it
 * better, which keeps it with the index however long the feed is, and from compiling the statement
 * for longer than it takes (`jit_above_cost`).
 */
export const readChanges = {
  name: 'strata_read_changes',
  text: `SELECT concat_ws(':', LEAST(pg_snapshot_xmin(now), own), own,
         COALESCE((SELECT string_agg(x::text, ',' ORDER BY x) FROM pg_snapshot_xip(now) x WHERE x < own), '')) AS cursor,
       (SELECT ${server} FROM strata.feed_state state) AS server,
       COALESCE(pg_snapshot_xmax(since) > pruned
         AND NOT EXISTS (
           SELECT FROM pg_snapshot_xip(since) x
           WHERE x <= pruned AND pg_visible_in_snapshot(x, now) AND x <> ALL (open_when_pruned)
             AND NOT EXISTS (SELECT FROM strata.changes WHERE id = x)
         ) AND missed.number <= ${maxMissed}, false) AS complete,
       COALESCE(missed.changes, '[]') AS changes
     FROM unnest($1::pg_snapshot[]) WITH ORDINALITY AS cursors (since, place),
       (SELECT pg_current_snapshot() AS now, $2::xid8 AS own, pruned, open_when_pruned FROM strata.feed_state) AS state,
       LATERAL (
         SELECT count(*) AS number,
           json_agg(json_build_object('id', id::text, 'scope', scope, 'revision', revision, 'keys', keys) ORDER BY id, revision) AS changes
         FROM (
           (SELECT id, scope, revision, keys FROM strata.changes WHERE id >= pg_snapshot_xmax(since) ORDER BY id LIMIT ${maxMissed + 1})
           UNION ALL SELECT id, scope, revision, keys FROM strata.changes WHERE id = ANY (ARRAY(SELECT pg_snapshot_xip(since)))
         ) AS each
       ) AS missed
     ORDER BY place`,
};

/**
 * Removes changes older than the retention, and notes up to where, so that a poll from before
 * is told that changes are missing. All changes of a transaction go together: what is left of
 * one would pass for all of it. So only those go whose ids are below that of any change that is
 * kept. One from the future keeps nothing: the server's clock was set back, perhaps by years.
 * Removes the leases `$2`, unless they were renewed meanwhile.
 *
 * Notes which transactions are open: what is removed later of one of them goes from that list,
 * and of the others nothing is, however long they take. Of those that the list has no room for,
 * a node is told that changes are missing.
 */
export const pruneChanges = `WITH kept AS MATERIALIZED (
       SELECT id FROM strata.changes
       WHERE created_at BETWEEN (SELECT clock_timestamp() - make_interval(mins => $1)) AND (SELECT clock_timestamp())
       ORDER BY id LIMIT 1
     ), removed AS (
       DELETE FROM strata.changes WHERE id < COALESCE((SELECT id FROM kept), '${beyondAll}'::xid8) RETURNING id
     ), ended AS (
       DELETE FROM strata.leases l USING json_to_recordset($2::json) AS e (holder text, token text)
       WHERE l.holder = e.holder AND l.token = e.token
     )
     UPDATE strata.feed_state SET pruned = GREATEST(pruned, (SELECT max(id) FROM removed)),
       open_when_pruned = ARRAY(
         SELECT x FROM (SELECT unnest(open_when_pruned) UNION SELECT pg_snapshot_xip(pg_current_snapshot())) AS open (x)
         WHERE x NOT IN (SELECT id FROM removed) ORDER BY x DESC LIMIT ${maxOpenWhenPruned}
       )
     WHERE EXISTS (SELECT FROM removed)`;
