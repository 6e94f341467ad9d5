/**
 * Takes committed audit events from the outbox to the audit service. Runs on every node with a
 * database.
 */
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import { startBackgroundLoop, type BackgroundLoop } from '../concurrency/background-loop.ts';
import type { AuditEventFacts } from './commit.ts';

const batchEvents = 200;
/** A batch ends with the event that reaches this size. */
const batchBytes = 1024 * 1024;
/**
 * How often the outbox is read without a wake-up: for events of other nodes, and after failures.
 */
const intervalMs = 1000;
/**
 * At least so long from one batch to the next, where none is waiting: a batch costs the database
 * the same for one event as for many.
 */
const spacingMs = 50;

interface WaitingEvent {
  readonly seq: number;
  readonly event: AuditEventFacts;
  /** How many events wait, counted up to `batchEvents`. */
  readonly waiting: number;
}

/**
 * Hands events to `deliver` in the order of their commits within a scope, and removes them once it
 * has answered. Delivery is at least once. One node relays at a time, the holder of an advisory
 * lock, so that the order holds; when it is gone another takes over within a second. To be woken
 * after a commit on this node, so that its events do not wait for the interval.
 */
export function startRelay(
  db: DataSource,
  deliver: (events: AuditEventFacts[]) => Promise<unknown>,
  log: Logger,
): BackgroundLoop {
  /** Hands one batch on. Resolves to whether more events wait. */
  const handOn = (): Promise<boolean> =>
    db.transaction(async (manager) => {
      const [lock] = await manager.query<{ mine: boolean }[]>(
        `SELECT pg_try_advisory_xact_lock(hashtextextended('strata outbox', 0)) AS mine`,
      );
      if (!lock?.mine) return false;
      const batch = await manager.query<WaitingEvent[]>(
        `SELECT seq, event, waiting FROM (
           SELECT seq, event, count(*) OVER ()::int AS waiting,
             sum(octet_length(event::text)) OVER (ORDER BY seq) - octet_length(event::text) AS bytes_before
           FROM (SELECT seq, event FROM strata.outbox ORDER BY seq LIMIT $1) AS oldest
         ) AS measured WHERE bytes_before < $2 ORDER BY seq`,
        [batchEvents, batchBytes],
      );
      const [first] = batch;
      if (!first) return false;
      await deliver(batch.map(({ event }) => event));
      await manager.query('DELETE FROM strata.outbox WHERE seq = ANY($1)', [
        batch.map(({ seq }) => seq),
      ]);
      return first.waiting === batchEvents || first.waiting > batch.length;
    });

  let nextAt = -Infinity;
  return startBackgroundLoop({
    log,
    async look() {
      const tooEarlyMs = nextAt - performance.now();
      if (tooEarlyMs > 0) return tooEarlyMs;
      const moreWait = await handOn();
      if (moreWait) return 0;
      nextAt = performance.now() + spacingMs;
      return intervalMs;
    },
    retryMs: intervalMs,
    complaint: 'audit events wait in the outbox: the audit service or the database does not answer',
  });
}
