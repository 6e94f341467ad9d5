/**
 * Removes rows that have had their time: soon after a start, and then each hour.
 *
 * | Rule | Why |
 * |---|---|
 * | a statement removes at most `batchRows` rows of a table, and locked rows are left for the next time | nobody waits for a sweep for longer than one statement takes |
 * | a batch is a transaction under an advisory lock, which the others only try | one node sweeps at a time; when it is gone another continues within a minute |
 * | what asks other services has no transaction, and each node may do it | nobody waits for a connection until they answer |
 * | a pause follows each batch | the database has most of its time for whoever waits for an answer |
 * | what fails is logged once, and tried again each minute | a sweep that cannot work is seen, and does not fill the log |
 */
import type { Logger } from 'pino';
import type { DataSource, EntityManager } from 'typeorm';
import { WakeableWait } from '../concurrency/wakeable-wait.ts';

export const batchRows = 1000;
const pauseMs = 50;
const firstMs = 10_000;
const retryMs = 60_000;
const intervalMs = 60 * 60_000;

/** Rows that were removed, by table. */
export type Removed = Readonly<Record<string, number>>;

/**
 * Removes some rows in one statement: at most `most` of each table. It is called again until it
 * removes fewer than that of every table, so what depends on a row goes before it, or with it.
 */
export type Sweep = (manager: EntityManager, most: number) => Promise<Removed>;

/**
 * A sweep by one statement, which removes what is older than $1 days, at most $2 rows, and answers
 * how many of each table.
 */
export const sweepAfterDays =
  (days: () => number, statement: string): Sweep =>
  async (manager, most) => {
    const [removed] = await manager.query<[Removed]>(statement, [days(), most]);
    return removed;
  };

export interface SweeperOptions {
  readonly db: DataSource;
  readonly log: Logger;
  /** What is swept together, by one node at a time. */
  readonly name: string;
  /** By what they remove, for the log. */
  readonly sweeps: Readonly<Record<string, Sweep>>;
  /** Those that ask other services, each part of which may be done again. */
  readonly asking?: Readonly<Record<string, Sweep>>;
  /** Until the first time, in milliseconds; within a minute of the start. */
  readonly firstMs?: number;
  readonly retryMs?: number;
}

export interface Sweeper {
  /** Ends after the batch on its way. */
  readonly stop: () => Promise<void>;
}

export function startSweeping(options: SweeperOptions): Sweeper {
  const { db, log, name, sweeps, asking = {} } = options;
  const nextTime = new WakeableWait();
  const stopping = new AbortController();
  const failing = new Set<string>();

  /** Null where another node is sweeping. */
  const removeAlone = (sweep: Sweep): Promise<Removed | null> =>
    db.transaction(async (manager) => {
      const [lock] = await manager.query<{ mine: boolean }[]>(
        'SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS mine',
        [`strata sweep ${name}`],
      );
      return lock?.mine ? sweep(manager, batchRows) : null;
    });

  const batchOf: Readonly<Record<string, () => Promise<Removed | null>>> = Object.fromEntries([
    ...Object.entries(sweeps).map(([what, sweep]) => [what, () => removeAlone(sweep)] as const),
    ...Object.entries(asking).map(
      ([what, sweep]) => [what, () => sweep(db.manager, batchRows)] as const,
    ),
  ]);

  /** Resolves to whether nothing is left to remove. */
  async function removeAll(
    what: string,
    removeBatch: () => Promise<Removed | null>,
  ): Promise<boolean> {
    const removed: Record<string, number> = {};
    let isDone = false;
    let isMine = true;
    while (!isDone && isMine && !stopping.signal.aborted) {
      const batch = await removeBatch();
      isMine = batch !== null;
      for (const [table, rows] of Object.entries(batch ?? {}))
        removed[table] = (removed[table] ?? 0) + rows;
      isDone = batch !== null && Object.values(batch).every((rows) => rows < batchRows);
      if (!isDone && !stopping.signal.aborted) await nextTime.wait(pauseMs);
    }
    const hasRemoved = Object.values(removed).some((rows) => rows > 0);
    if (hasRemoved) log.info({ removed }, `${what} past their retention were removed`);
    return isDone;
  }

  /** As above; one that fails does not hold up the others. */
  async function tryToRemoveAll(
    what: string,
    removeBatch: () => Promise<Removed | null>,
  ): Promise<boolean> {
    try {
      const isDone = await removeAll(what, removeBatch);
      failing.delete(what);
      return isDone;
    } catch (error) {
      if (!failing.has(what) && !stopping.signal.aborted)
        log.warn(
          { err: error },
          `${what} past their retention cannot be removed; it is tried again every minute`,
        );
      failing.add(what);
      return false;
    }
  }

  async function run(): Promise<void> {
    await nextTime.wait(options.firstMs ?? firstMs);
    while (!stopping.signal.aborted) {
      let isDone = true;
      for (const [what, removeBatch] of Object.entries(batchOf)) {
        const isSwept = await tryToRemoveAll(what, removeBatch);
        isDone &&= isSwept;
      }
      if (!stopping.signal.aborted)
        await nextTime.wait(isDone ? intervalMs : (options.retryMs ?? retryMs));
    }
  }

  const running = run();
  return {
    async stop() {
      stopping.abort();
      nextTime.wake();
      await running;
    },
  };
}
