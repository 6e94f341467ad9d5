/**
 * Prepared statements, which a connection parses and plans once: of those that every write makes, and
 * of those that look for work each second, that takes longer than their work, and so do the objects
 * that TypeORM makes of a query.
 */
import type { ClientBase, QueryResultRow } from 'pg';
import type { DataSource, EntityManager } from 'typeorm';

export interface Statement {
  /** No other statement has it. At most 63 bytes. */
  readonly name: string;
  readonly text: string;
}

/** Its rows. Inside a transaction; elsewhere as any other statement. */
export async function run<Row extends QueryResultRow>(
  manager: EntityManager,
  { name, text }: Statement,
  values: unknown[],
): Promise<Row[]> {
  const { queryRunner } = manager;
  if (!queryRunner) return manager.query<Row[]>(text, values);
  const client: ClientBase = await queryRunner.connect();
  const { rows } = await client.query<Row>({ name, text, values });
  return rows;
}

/** The same as a transaction of its own. */
export async function runAlone<Row extends QueryResultRow>(
  db: DataSource,
  statement: Statement,
  values: unknown[] = [],
): Promise<Row[]> {
  const runner = db.createQueryRunner();
  try {
    return await run<Row>(runner.manager, statement, values);
  } finally {
    await runner.release();
  }
}
