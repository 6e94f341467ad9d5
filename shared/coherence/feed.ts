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
import { randomUUID } from 'node:crypto';
import type { ClientBase } from 'pg';
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import type { ParamsOf, ResultOf } from '../contracts/index.ts';
import { isRefusedData } from '../database/failures.ts';
import { StrataError } from '../errors.ts';
import { Turns } from '../concurrency/turns.ts';
import {
  judged,
  leaseTable,
  probeWrite,
  pruneChanges,
  raisedBy,
  readChanges,
  renewLeases,
  retentionMinutes,
  type Met,
  type Renewal,
} from './feed-statements.ts';

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

/** A poll that waits for the others of its batch. */
interface Waiting {
  readonly poll: Poll;
  readonly answered: PromiseWithResolvers<PollResult>;
}

/** The lease table, with which of the changes that were asked about each holder has read. */
interface LeasesOfChanges<Ids = ReadonlySet<string>> {
  readonly leases: readonly (Omit<Lease, 'hasRead'> & { readonly read: Ids })[];
  readonly server: string;
}

const leasesOf = ({ leases, server }: LeasesOfChanges, changeId: string): LeaseTableRead => ({
  leases: leases.map(({ read, ...lease }) => ({ ...lease, hasRead: read.has(changeId) })),
  server,
});

/** Whoever asks about a change. */
interface Asked extends Pick<PromiseWithResolvers<LeaseTableRead>, 'resolve' | 'reject'> {
  readonly changeId: string;
}

/** The answer to a poll that renewed nothing. Its holder has been answered a later one. */
const tooLate = (): PromiseRejectedResult => ({
  status: 'rejected',
  reason: new StrataError('timeout', 'A later poll of this node has been answered.'),
});

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

/**
 * Returns whether the database was another one than the feed knew, or one that had started again
 * or gone back. Whoever comes first raises the revisions, and only where some may be lost.
 */
async function meetOn(
  client: ClientBase,
  polls: readonly Poll[],
  ownFenceMs: number,
  log: Logger | undefined,
): Promise<boolean> {
  await client.query('BEGIN');
  try {
    await client.query('SELECT FROM strata.feed_state FOR UPDATE');
    const { rows } = await client.query<Met>(
      `WITH ${judged} SELECT here.*, is_lost, COALESCE((SELECT max(raised) FROM polls), 0) AS newest FROM here, lost`,
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
        'PostgreSQL lacks what was written before, as after a restore or a failover, or is another one; all revisions were raised, and nodes begin again',
      );
    return isMet;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
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
const pollAll = (
  db: DataSource,
  polls: readonly Poll[],
  meet: (client: ClientBase) => Promise<boolean>,
  follow: (cluster: string) => void,
): Promise<PromiseSettledResult<PollResult>[]> =>
  onOneConnection(db, async (client) => {
    const renew = async (): Promise<Renewal[]> =>
      (await client.query<Renewal>({ ...renewLeases, values: [JSON.stringify(polls)] })).rows;
    let renewed = await renew();
    if (renewed.length === 0 && (await meet(client))) renewed = await renew();
    const [first] = renewed;
    if (!first) return polls.map(() => tooLate());
    follow(first.cluster);
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
    return polls.map(({ holder, cursor }) => {
      if (!inTime.has(holder)) return tooLate();
      const reading = readings.get(cursor)!;
      // Not complete: there is no cursor, or it is from another database, or changes after it are
      // pruned. A transaction that was open at the cursor and has ended without leaving a change may
      // have been pruned, unless it was open when that came past it.
      const changes = reading.complete ? reading.changes : [];
      return { status: 'fulfilled', value: { ...reading, changes } };
    });
  });

export interface FeedOptions {
  /** A poll waits so long for others, with which it goes to the database in the same two statements. */
  readonly gatherMs?: number;
  /** T of this node. */
  readonly fenceMs?: number;
  readonly log?: Logger;
  /** Called with `strata.cluster()` of the server that answers. */
  readonly onServer?: (cluster: string) => void;
}

export function createFeed(
  db: DataSource,
  { gatherMs = 0, fenceMs = 0, log, onServer }: FeedOptions = {},
) {
  /** Of the server that answered last. */
  let cluster: string | undefined;
  function follow(answering: string): void {
    cluster = answering;
    onServer?.(answering);
  }
  /** Polls that have arrived and not been sent. */
  let gathering: Waiting[] | undefined;

  /**
   * What is asked while the table is being read is answered by the next reading, which begins after
   * it: a lease may be made any time.
   */
  const readings = new Turns<Asked>(maxTogether, async (_name, asked) => {
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

  /** A poll that the database refuses for what is in it takes no others with it. */
  async function pollTogether(polls: readonly Poll[]): Promise<PromiseSettledResult<PollResult>[]> {
    try {
      return await pollAll(db, polls, (client) => meetOn(client, polls, fenceMs, log), follow);
    } catch (reason) {
      if (polls.length === 1 || !isRefusedData(reason))
        return polls.map(() => ({ status: 'rejected', reason }));
      return Promise.all(polls.map(async (poll) => (await pollTogether([poll]))[0]!));
    }
  }

  async function send(batch: readonly Waiting[]): Promise<void> {
    const results = await pollTogether(batch.map(({ poll }) => poll));
    for (const [index, { answered }] of batch.entries()) {
      const result = results[index]!;
      if (result.status === 'fulfilled') answered.resolve(result.value);
      else answered.reject(result.reason);
    }
  }

  function gather(): Waiting[] {
    const batch: Waiting[] = [];
    setTimeout(() => {
      if (gathering === batch) gathering = undefined;
      void send(batch);
    }, gatherMs);
    return batch;
  }

  return {
    /** Renews the lease and reads the changes since the cursor. */
    poll(poll: Poll): Promise<PollResult> {
      // One statement renews each lease once; a holder polls again where it has given a poll up.
      const isRepeated = gathering?.some(({ poll: { holder } }) => holder === poll.holder);
      if (!gathering || isRepeated) gathering = gather();
      const answered = Promise.withResolvers<PollResult>();
      gathering.push({ poll, answered });
      return answered.promise;
    },

    /** Before the first write of a node, which is refused in a database that nobody has met. */
    async meet(): Promise<void> {
      await onOneConnection(db, (client) => meetOn(client, [], fenceMs, log));
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
        follow(probed!.cluster);
        return isSame;
      } catch (error) {
        log?.debug({ err: error }, 'the database takes no writes');
        return false;
      }
    },

    /** All leases, good or not: only whoever watches the table can tell. `changeId` may be '0'. */
    leases(changeId: string): Promise<LeaseTableRead> {
      const { promise, resolve, reject } = Promise.withResolvers<LeaseTableRead>();
      readings.add('leases', { changeId, resolve, reject });
      return promise;
    },

    /** Also the given leases, unless they were renewed meanwhile. */
    async prune(ended: readonly Pick<Lease, 'holder' | 'token'>[]): Promise<void> {
      await db.query(pruneChanges, [retentionMinutes, JSON.stringify(ended)]);
    },
  };
}
export type Feed = ReturnType<typeof createFeed>;
