/**
 * Locks that queue: nobody who asks for a shared lock passes somebody who waits for the exclusive
 * one. A row's `FOR SHARE` is no such lock: while others share it, new ones pass a waiting writer,
 * which then waits as long as there are any. They end with the transaction, so that they also hold
 * behind a pooler that gives each transaction another session.
 */
import type { EntityManager } from 'typeorm';
import { run, type Statement } from './prepared-statements.ts';

/** An expression that takes the exclusive lock of the name that `name`, also one, stands for. */
export const lockExpression = (name: string): string =>
  `pg_advisory_xact_lock(hashtextextended(${name}, 0))`;

const exclusive: Statement = {
  name: 'strata_lock_exclusively',
  text: `SELECT ${lockExpression('$1::text')}`,
};
// In one order everywhere, so that no two transactions wait for each other.
const shared: Statement = {
  name: 'strata_lock_shared',
  text: `SELECT pg_advisory_xact_lock_shared(hashtextextended(name, 0))
     FROM (SELECT unnest($1::text[]) AS name ORDER BY name) AS names`,
};

/** What is read with the next statement stays so until the transaction ends. */
export async function lockExclusively(manager: EntityManager, name: string): Promise<void> {
  await run(manager, exclusive, [name]);
}

/** The same, beside others who share them. */
export async function lockShared(manager: EntityManager, names: readonly string[]): Promise<void> {
  await run(manager, shared, [names]);
}
