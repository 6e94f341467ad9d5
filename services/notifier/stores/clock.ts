import type { EntityManager } from 'typeorm';

/**
 * The database's time, the only clock that timers are set and compared by. Inside a transaction:
 * when it began.
 */
export async function databaseTime(manager: EntityManager): Promise<Date> {
  const [{ now }] = await manager.query<[{ now: Date }]>('SELECT now() AS now');
  return now;
}

/** Not when the transaction began: it may have waited for the lock. */
export async function clockTime(manager: EntityManager): Promise<Date> {
  const [{ now }] = await manager.query<[{ now: Date }]>(
    `SELECT date_trunc('milliseconds', clock_timestamp()) AS now`,
  );
  return now;
}

/** By the clock that slots run out by (worker/slot-clock.ts). */
export async function slotTime(manager: EntityManager): Promise<Date> {
  const [{ now }] = await manager.query<[{ now: Date }]>('SELECT notifier.slot_now() AS now');
  return now;
}
