import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import { WakeableWait } from '../wakeable-wait.ts';
import type { AuditEventFacts } from './commit.ts';

const batch = 200;
/** A batch ends with the event that reaches it. */
const batchBytes = 1024 * 1024;

/**
 * Hands committed audit events to `deliver` in the order of commit within a scope, and removes them once it has answered.
 * One node relays at a time (advisory lock), so that order holds; another takes over within a second. Delivery is at least once.
 */
export function startRelay(
  db: DataSource,
  deliver: (events: AuditEventFacts[]) => Promise<unknown>,
  log: Logger,
) {
  const state = { stopped: false };
  const nextLook = new WakeableWait();

  /** Whether more is waiting. */
  const once = (): Promise<boolean> =>
    db.transaction(async (manager) => {
      const [lock] = await manager.query<{ mine: boolean }[]>(
        `SELECT pg_try_advisory_xact_lock(hashtextextended('strata outbox', 0)) AS mine`,
      );
      if (!lock?.mine) return false;
      const rows = await manager.query<{ seq: number; event: AuditEventFacts; waiting: number }[]>(
        `SELECT seq, event, waiting FROM (
         SELECT seq, event, count(*) OVER ()::int AS waiting, sum(octet_length(event::text)) OVER (ORDER BY seq) - octet_length(event::text) AS before
         FROM (SELECT seq, event FROM strata.outbox ORDER BY seq LIMIT $1) AS first
       ) AS counted WHERE before < $2 ORDER BY seq`,
        [batch, batchBytes],
      );
      const [first] = rows;
      if (!first) return false;
      await deliver(rows.map((row) => row.event));
      await manager.query('DELETE FROM strata.outbox WHERE seq = ANY($1)', [
        rows.map((row) => row.seq),
      ]);
      return first.waiting === batch || first.waiting > rows.length;
    });

  const loop = async (): Promise<void> => {
    let failing = false;
    while (!state.stopped) {
      const more = await once().then(
        (waits) => {
          failing = false;
          return waits;
        },
        (error: unknown) => {
          if (!failing && !state.stopped)
            log.warn(
              { err: error },
              'audit events wait in the outbox: the audit service or the database does not answer',
            );
          failing = true;
          return false;
        },
      );
      if (more || state.stopped) continue;
      await nextLook.wait(1000);
    }
  };
  const running = loop();
  return {
    /** Called after a commit. */
    wake(): void {
      nextLook.wake();
    },
    async stop(): Promise<void> {
      state.stopped = true;
      nextLook.wake();
      await running;
    },
  };
}
