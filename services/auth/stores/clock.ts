/**
 * Times by the database's clock. A node's may jump: what is found ended is removed, or remembered so
 * by gateways, and what begins in the future counts as recent for longer.
 */
import { Raw, type EntityManager, type FindOperator } from 'typeorm';

export async function databaseTime(manager: EntityManager): Promise<Date> {
  const [{ now }] = await manager.query<[{ now: Date }]>('SELECT clock_timestamp() AS now');
  return now;
}

/** Whether the time in a column has passed. */
export const hasPassed = (): FindOperator<Date> => Raw((column) => `${column} <= now()`);
