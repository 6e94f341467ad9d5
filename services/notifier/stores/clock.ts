import type { EntityManager } from 'typeorm';

const timeBy =
  (clock: string) =>
  async (manager: EntityManager): Promise<Date> => {
    const [{ now }] = await manager.query<[{ now: Date }]>(`SELECT ${clock} AS now`);
    return now;
  };

/**
 * The database's time, the only clock that timers are set and compared by. Inside a transaction:
 * when it began.
 */
export const databaseTime = timeBy('now()');

/** Not when the transaction began: it may have waited for the lock. */
export const clockTime = timeBy(`date_trunc('milliseconds', clock_timestamp())`);

/** By the clock that slots run out by (worker/slot-clock.ts). */
export const slotTime = timeBy('notifier.slot_now()');
