/**
 * Races that really happen: a test holds a lock, waits until the others queue behind it, and only
 * then lets go. Starting many requests at once proves little, because they may follow each other
 * without ever meeting.
 */
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { Database } from './postgres.ts';

export interface HeldLock {
  /**
   * Resolves once exactly this many other sessions of the database wait for a lock; throws if that
   * does not happen.
   */
  readonly untilWaiting: (count: number) => Promise<void>;
  readonly release: () => Promise<void>;
  /** Releases it with what `statement` has changed. */
  readonly commit: () => Promise<void>;
}

const patienceMs = 60_000;

/**
 * Holds what `statement` locks, such as a row that it selects FOR UPDATE, in a transaction of its
 * own.
 */
export async function holdLock(
  database: Pick<Database, 'url' | 'query'>,
  statement: string,
  values: unknown[] = [],
): Promise<HeldLock> {
  const holder = new pg.Client({ connectionString: database.url });
  await holder.connect();
  await holder.query('BEGIN');
  // Also where the role has time-outs.
  await holder.query('SET LOCAL statement_timeout = 0');
  await holder.query('SET LOCAL idle_in_transaction_session_timeout = 0');
  await holder.query(statement, values);
  return {
    async untilWaiting(count) {
      const until = Date.now() + patienceMs;
      for (;;) {
        const [row] = await database.query<{ waiting: number }>(
          `SELECT count(*)::int AS waiting FROM pg_stat_activity
           WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`,
        );
        const waiting = row!.waiting;
        if (waiting === count) return;
        if (Date.now() > until)
          throw new Error(`${waiting} sessions wait for the lock, not ${count}: there is no race`);
        await delay(20);
      }
    },
    async release() {
      // Nothing was written, and nothing is: a commit would also put on disk what others have just
      // done.
      await holder.query('ROLLBACK');
      await holder.end();
    },
    async commit() {
      await holder.query('COMMIT');
      await holder.end();
    },
  };
}

/**
 * Starts every writer while the revision row of a scope is held, which each write of the scope
 * locks first, and lets them continue once one of them waits there. The others of a process wait
 * inside it for their turn.
 */
export async function queuedBehindRevision<T>(
  database: Pick<Database, 'url' | 'query'>,
  scope: string,
  writers: readonly (() => Promise<T>)[],
): Promise<T[]> {
  const lock = await holdLock(
    database,
    'SELECT revision FROM strata.revisions WHERE scope = $1 FOR UPDATE',
    [scope],
  );
  const answers = Promise.all(writers.map((write) => write()));
  try {
    await lock.untilWaiting(1);
  } finally {
    await lock.release();
  }
  return answers;
}
