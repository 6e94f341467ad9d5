import 'reflect-metadata';
import pg from 'pg';
import { DataSource, type EntitySchema, type MigrationInterface, type QueryRunner } from 'typeorm';

// int8 comes as text by default; revisions and sequences stay far below 2^53.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);

export type MigrationClass = new () => MigrationInterface & { name: string };

/** A migration of plain SQL. `name` ends in a 13-digit timestamp, which orders it. */
export function migration(name: string, ...statements: string[]): MigrationClass {
  return class {
    name = name;
    async up(runner: QueryRunner): Promise<void> {
      for (const statement of statements) await runner.query(statement);
    }
    async down(): Promise<void> {
      throw new Error(`${name} has no way back: restore a backup`);
    }
  };
}

/** What a service owns in the database: one schema, its entities, its migrations. */
export interface Schema {
  readonly schema: string;
  readonly entities: EntitySchema[];
  readonly migrations: MigrationClass[];
}

export interface DatabaseOptions {
  readonly url: string;
  readonly poolSize: number;
  readonly timeoutMs: number;
  readonly ssl: boolean;
}

/** Given up with a query that got no answer in time: what is sent after it, a rollback say, would only wait as long again. */
class Connection extends pg.Client {
  constructor(config?: pg.ClientConfig) {
    super(config);
    const send = this.query.bind(this) as (...args: unknown[]) => unknown;
    this.query = ((...args: unknown[]) => {
      const sent = send(...args);
      if (sent instanceof Promise)
        sent.catch((error: Error) => {
          if (error.message === 'Query read timeout') void this.end();
        });
      return sent;
    }) as typeof this.query;
  }
}

/** Opens the service's own pool. Queries end, on the server and, where it is stalled, on our side, before a request times out. */
export async function openDatabase(
  options: DatabaseOptions,
  { schema, entities, migrations }: Schema,
): Promise<DataSource> {
  const [onServer, here] = [0.7, 0.8].map((part) => Math.floor(options.timeoutMs * part));
  const source = new DataSource({
    type: 'postgres',
    url: options.url,
    schema,
    entities,
    migrations,
    migrationsTableName: 'migrations',
    poolSize: options.poolSize,
    ssl: options.ssl,
    synchronize: false,
    installExtensions: false,
    useUTC: true,
    applicationName: `strata-${schema}`,
    poolErrorHandler: () => {},
    extra: {
      Client: Connection,
      connectionTimeoutMillis: here,
      statement_timeout: onServer,
      query_timeout: here,
      idle_in_transaction_session_timeout: options.timeoutMs * 2,
      keepAlive: true,
    },
  });
  return source.initialize();
}

/** Applies what is missing, one process at a time. */
export async function migrate(
  options: DatabaseOptions,
  schemas: readonly Schema[],
): Promise<string[]> {
  const client = new pg.Client({ connectionString: options.url, ssl: options.ssl });
  await client.connect();
  const applied: string[] = [];
  try {
    await client.query(`SELECT pg_advisory_lock(hashtextextended('strata migrations', 0))`);
    for (const each of schemas) {
      await client.query(`CREATE SCHEMA IF NOT EXISTS "${each.schema}"`);
      const source = await openDatabase({ ...options, poolSize: 1, timeoutMs: 600_000 }, each);
      try {
        for (const { name } of await source.runMigrations({ transaction: 'each' }))
          applied.push(`${each.schema}.${name}`);
      } finally {
        await source.destroy();
      }
    }
  } finally {
    await client.end();
  }
  return applied;
}
