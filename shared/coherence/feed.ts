/**
 * The change feed and the caching leases, in the database beside the commits. Used by coherence.ts,
 * on nodes without a database over the bus. Polls that arrive at the same moment are answered
 * together, since what PostgreSQL does for a poll is mostly the same for many.
 *
 * The feed is read by snapshot, not by a sequence: a slow transaction that got a lower id may
 * commit later, and whoever reads up to `max(id)` would skip it. A cursor is the snapshot of the
 * poll before, so that a poll takes exactly the changes that were not visible then, however long
 * other transactions of the server stay open. (PostgreSQL manual, "Transaction ID and Snapshot
 * Information Functions".)
 *
 * The cursor ends at the poll's own transaction, which renewed the lease and is on disk. A
 * transaction beyond it may have ended without leaving a trace there, and after a crash PostgreSQL
 * hands its id out again. Changes in between are read again by the next poll, and applying a change
 * twice is harmless.
 */
import type { ClientBase } from 'pg';
import type { DataSource } from 'typeorm';
import type { ParamsOf, ResultOf } from '../contracts/index.ts';
import { isRefusedData } from '../database/failures.ts';
import { StrataError } from '../errors.ts';
import { verdictsSql, meetOn, server, type MeetOptions } from './feed-server.ts';
import { BatchQueue } from '../concurrency/batch-queue.ts';

export type Poll = ParamsOf<'feed.poll'>['body'];
export type PollResult = ResultOf<'feed.poll'>;
export type Leave = ParamsOf<'feed.leave'>['body'];

/** A row of the lease table. */
export interface Lease {
  /** The process that holds it. Two processes with one NODE_ID are two holders. */
  readonly holder: string;
  /** Made again by each poll. */
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

/** One reading of the lease table is for at most so many changes. */
const maxTogether = 1000;

/** Changes are kept this long. A node that was away for longer is told that changes are missing. */
const retentionMinutes = 15;
/** Far more than are open at once. */
const maxOpenWhenPruned = 1000;
/** The id of no transaction, and greater than that of any. */
const beyondAll = 2n ** 64n - 1n;

/**
 * Each write waits for this, and its plan takes longer than its work: with a name, a connection
 * plans it once.
 */
const leaseTable = {
  name: 'strata_leases',
  text: `SELECT ${server} AS server, COALESCE((
     SELECT json_agg(json_build_object('holder', holder, 'token', token, 'fenceMs', fence_ms,
       'read', ARRAY(SELECT id::text FROM unnest($1::xid8[]) id WHERE pg_visible_in_snapshot(id, cursor))))
     FROM strata.leases
   ), '[]') AS leases FROM strata.feed_state state`,
};

/** What a poll has of its own. */
interface Renewal {
  readonly holder: string;
  /** The transaction that renewed the lease, one for all polls of a batch. */
  readonly id: string;
  readonly server: string;
  readonly cluster: string;
}

/** A standby refuses it, and a server that was made read-only. It changes nothing. */
const probeWrite = `WITH nothing AS (DELETE FROM strata.leases WHERE false) SELECT strata.cluster() AS cluster`;

/** A poll that waits for the others of its batch. */
interface Waiting {
  readonly poll: Poll;
  readonly answered: PromiseWithResolvers<PollResult>;
}

/**
 * Renews the leases of the polls `$1`, in the order of holders, so that two transactions which renew
 * the same leases never wait for each other. A poll that comes after a later one of its holder
 * renews nothing: a node that stood still answers what it was asked then, and an older token in the
 * table would pass for a database that went back. Nothing is renewed in a database that is to be
 * met first.
 */
const renewLeases = {
  name: 'strata_renew_leases',
  text: `WITH ${verdictsSql},
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
const readChanges = {
  name: 'strata_read_changes',
  text: `SELECT concat_ws(':', LEAST(pg_snapshot_xmin(now), own), own,
         COALESCE((SELECT string_agg(x::text, ',' ORDER BY x) FROM pg_snapshot_xip(now) x WHERE x < own), '')) AS cursor,
       (SELECT ${server} FROM strata.feed_state state) AS server,
       extract(epoch FROM clock_timestamp())::float8 * 1000 AS at,
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

/** The lease table, with which of the changes that were asked about each holder has read. */
interface LeasesOfChanges<Ids = ReadonlySet<string>> {
  readonly leases: readonly (Omit<Lease, 'hasRead'> & { readonly read: Ids })[];
  readonly server: string;
}

const leasesOf = ({ leases, server }: LeasesOfChanges, changeId: string): LeaseTableRead => ({
  leases: leases.map(({ read, ...lease }) => ({ ...lease, hasRead: read.has(changeId) })),
  server,
});

/** The answer to a poll that renewed nothing. */
const tooLate = () => new StrataError('timeout', 'A later poll of this node has been answered.');

/** Whoever asks about a change. */
interface Asked extends Pick<PromiseWithResolvers<LeaseTableRead>, 'resolve' | 'reject'> {
  readonly changeId: string;
}

export interface FeedOptions extends MeetOptions {
  /** A poll waits so long for others, with which it goes to the database in the same two statements. */
  readonly gatherMs?: number;
  /** Called with `strata.cluster()` of the server that answers. */
  readonly onServer?: (cluster: string) => void;
}

interface PollOptions extends FeedOptions {
  readonly db: DataSource;
}

/** All statements of the work go to the same server: a connection never changes it. */
async function onOneConnection<T>(
  db: DataSource,
  work: (client: ClientBase) => Promise<T>,
): Promise<T> {
  const runner = db.createQueryRunner();
  try {
    return await work(await runner.connect());
  } finally {
    await runner.release();
  }
}

const readLeases = (db: DataSource, changeIds: readonly string[]): Promise<LeasesOfChanges> =>
  onOneConnection(db, async (client) => {
    const { rows } = await client.query<LeasesOfChanges<string[]>>({
      ...leaseTable,
      values: [changeIds],
    });
    const { leases, server } = rows[0]!;
    // Each of the changes is looked for in each of these.
    return { leases: leases.map((lease) => ({ ...lease, read: new Set(lease.read) })), server };
  });

/** Sends polls that arrive at the same moment together. */
class PollBatches {
  readonly #options: PollOptions;
  /** Polls that have arrived and not been sent. */
  #gathering: Waiting[] | undefined;

  constructor(options: PollOptions) {
    this.#options = options;
  }

  add(poll: Poll): Promise<PollResult> {
    // One statement renews each lease once; a holder polls again where it has given a poll up.
    const isRepeated = this.#gathering?.some(({ poll: { holder } }) => holder === poll.holder);
    const batch =
      this.#gathering && !isRepeated ? this.#gathering : (this.#gathering = this.#gather());
    const answered = Promise.withResolvers<PollResult>();
    batch.push({ poll, answered });
    return answered.promise;
  }

  #gather(): Waiting[] {
    const batch: Waiting[] = [];
    setTimeout(() => {
      if (this.#gathering === batch) this.#gathering = undefined;
      void this.#send(batch);
    }, this.#options.gatherMs);
    return batch;
  }

  /** A poll that the database refuses for what is in it takes no others with it. */
  async #send(batch: readonly Waiting[]): Promise<void> {
    try {
      await this.#answer(batch);
    } catch (error) {
      if (batch.length > 1 && isRefusedData(error))
        for (const each of batch) void this.#send([each]);
      else for (const { answered } of batch) answered.reject(error);
    }
  }

  /**
   * Renews the leases and reads the changes since the cursors. In this order: a writer that does
   * not see a lease has committed before the read, which then sees its change. That holds for each
   * of the polls: the one transaction that renews all leases has ended when the one read begins,
   * and no poll joins once they have been sent.
   *
   * A lease shows the cursor only where it is of this server. A server that was restored, or
   * recovered from a crash, gives transaction ids out again, and a cursor from before would say of
   * those that their changes have been read.
   */
  #answer(batch: readonly Waiting[]): Promise<void> {
    const { db, onServer } = this.#options;
    const polls = batch.map(({ poll }) => poll);
    return onOneConnection(db, async (client) => {
      const renew = async (): Promise<Renewal[]> =>
        (await client.query<Renewal>({ ...renewLeases, values: [JSON.stringify(polls)] })).rows;
      let renewed = await renew();
      if (renewed.length === 0 && (await meetOn(client, polls, this.#options)))
        renewed = await renew();
      const [first] = renewed;
      if (!first) throw tooLate();
      onServer?.(first.cluster);
      // Nodes that were answered together have the same.
      const cursors = [...new Set(polls.map(({ cursor }) => cursor))];
      const read = await client.query<PollResult>({ ...readChanges, values: [cursors, first.id] });
      if (read.rows[0]!.server !== first.server)
        throw new StrataError(
          'service_unavailable',
          'The database became another one in the midst of a poll.',
        );
      const readings = new Map(cursors.map((cursor, place) => [cursor, read.rows[place]!]));
      const inTime = new Set(renewed.map(({ holder }) => holder));
      for (const { poll, answered } of batch) {
        if (!inTime.has(poll.holder)) answered.reject(tooLate());
        const reading = readings.get(poll.cursor)!;
        // Not complete: there is no cursor, or it is from another database, or changes after it are
        // pruned. A transaction that was open at the cursor and has ended without leaving a change
        // may have been pruned, unless it was open when that came past it.
        answered.resolve({ ...reading, changes: reading.complete ? reading.changes : [] });
      }
    });
  }
}

/**
 * Removes changes older than the retention, and notes up to where, so that a poll from before is
 * told that changes are missing. All changes of a transaction go together: what is left of one would
 * pass for all of it. So only those go whose ids are below that of any change that is kept. One from
 * the future keeps nothing: the server's clock was set back, perhaps by years. Removes the given
 * leases, unless they were renewed meanwhile.
 *
 * Notes which transactions are open: what is removed later of one of them goes from that list, and
 * of the others nothing is, however long they take. Of those that the list has no room for, a node
 * is told that changes are missing.
 */
const pruneChanges = `WITH kept AS MATERIALIZED (
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

export function createFeed(db: DataSource, options: FeedOptions = {}) {
  /** Of the server that answered last. */
  let cluster: string | undefined;
  function onServer(answering: string): void {
    cluster = answering;
    options.onServer?.(answering);
  }
  const batches = new PollBatches({ ...options, db, onServer });
  /**
   * What is asked while the table is being read is answered by the next reading, which begins after
   * it: a lease may be made any time.
   */
  const readings = new BatchQueue<Asked>(maxTogether, async (_name, asked) => {
    try {
      const read = await readLeases(
        db,
        asked.map(({ changeId }) => changeId),
      );
      for (const { changeId, resolve } of asked) resolve(leasesOf(read, changeId));
    } catch (error) {
      for (const { reject } of asked) reject(error);
    }
    return [];
  });

  return {
    /** Renews the lease and reads the changes since the cursor. */
    poll: (poll: Poll): Promise<PollResult> => batches.add(poll),

    /** Before the first write of a node, which is refused in a database that nobody has met. */
    async meet(): Promise<void> {
      await onOneConnection(db, (client) => meetOn(client, [], options));
    },

    /**
     * Gives the lease back that one of these polls made, however late this arrives: not one of a
     * later poll.
     */
    async leave({ holder, tokens }: Leave): Promise<void> {
      await db.query('DELETE FROM strata.leases WHERE holder = $1 AND token = ANY ($2)', [
        holder,
        tokens,
      ]);
    },

    /**
     * Whether the server that answered last takes writes, so that what was read of it before this
     * call was the newest. Not where it does not answer.
     */
    async isWritable(): Promise<boolean> {
      try {
        const [probed] = await db.query<{ cluster: string }[]>(probeWrite);
        const isSame = cluster === undefined || probed!.cluster === cluster;
        onServer(probed!.cluster);
        return isSame;
      } catch (error) {
        options.log?.debug({ err: error }, 'the database takes no writes');
        return false;
      }
    },

    /** All leases, good or not: only whoever watches the table can tell. `changeId` may be '0'. */
    leases(changeId: string): Promise<LeaseTableRead> {
      const { promise, resolve, reject } = Promise.withResolvers<LeaseTableRead>();
      readings.add('leases', { changeId, resolve, reject });
      return promise;
    },

    /** Removes what is older than the retention, and these leases. */
    async prune(ended: readonly Pick<Lease, 'holder' | 'token'>[]): Promise<void> {
      await db.query(pruneChanges, [retentionMinutes, JSON.stringify(ended)]);
    },
  };
}
export type Feed = ReturnType<typeof createFeed>;
