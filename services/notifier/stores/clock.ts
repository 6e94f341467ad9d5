import type { EntityManager } from 'typeorm';

/**
 * The database's time, the only clock that timers are set and compared by. Inside a transaction:
 * when it began.
 */
export async function databaseTime(manager: EntityManager): Promise<Date> {
  const [{ now }] = await manager.query<[{ now: Date }]>('SELECT now() AS now');
  return now;
}

export interface ClockTimes {
  readonly now: Date;
  /** By the clock that slots run out by (worker/slot-clock.ts). */
  readonly slotNow: Date;
}

/** Not when the transaction began: it may have waited for the lock. */
export async function clockTimes(manager: EntityManager): Promise<ClockTimes> {
  const [times] = await manager.query<[ClockTimes]>(
    `SELECT date_trunc('milliseconds', clock_timestamp()) AS now,
       date_trunc('milliseconds', notifier.slot_now()) AS "slotNow"`,
  );
  return times;
}
