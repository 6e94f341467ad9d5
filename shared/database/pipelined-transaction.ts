/** Transactions for what is done so often that each wait for the database counts. */
import type { ClientBase } from 'pg';
import type { DataSource, EntityManager } from 'typeorm';
import { allEnded } from './all-ended.ts';

/**
 * As `DataSource.transaction`, but it does not wait until the transaction has begun: what `work`
 * sends first follows at once. Should the database refuse to begin it, that would be done outside
 * of any transaction; so a first statement that writes asks for `hasBegun`, which is false there.
 * (DEFERRABLE has no other meaning in a transaction that writes.)
 */
export async function pipelinedTransaction<T>(
  db: DataSource,
  work: (manager: EntityManager) => Promise<T>,
): Promise<T> {
  const runner = db.createQueryRunner();
  try {
    const client: ClientBase = await runner.connect();
    const beginning = client.query('START TRANSACTION DEFERRABLE');
    try {
      const [, result] = await allEnded([beginning, work(runner.manager)]);
      await client.query('COMMIT');
      return result;
    } catch (error) {
      await client.query('ROLLBACK').catch(() => undefined);
      throw error;
    }
  } finally {
    await runner.release();
  }
}

export const hasBegun = `current_setting('transaction_deferrable') = 'on'`;
