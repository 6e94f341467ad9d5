/** Opens and migrates the database. Every service has a schema of its own in it. */
import 'reflect-metadata';
import pg from 'pg';
import { DataSource, type EntitySchema, type MigrationInterface, type QueryRunner } from 'typeorm';
import { addressesOf } from '../settings/database-address.ts';
import { maxLifetimeSeconds, PooledClient, type Connections } from './connections.ts';
import { serverTimeouts } from './pooler.ts';

// int8 comes as text by default; revisions and sequences stay far below 2^53.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);

export type MigrationClass = new () => MigrationInterface & { name: string };

/**
 * A migration of plain SQL. `name` ends in a 13-digit timestamp, which orders it. A database runs
 * it once, so what is released stays as it is, and a change is a migration of its own after it.
 */
export function migration(name: string, ...statements: string[]): MigrationClass {
  return class {
    name = name;
    async up(runner: QueryRunner): Promise<void> {
      // Of this transaction: the role's time-outs are those of requests, where it has any.
      await runner.query("SET LOCAL statement_timeout = '10min'");
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
  /** The request timeout. Queries end earlier, so that a request can still be answered. */
  readonly timeoutMs: number;
  readonly ssl: boolean;
  /** A pooler in transaction mode is between: see pooler.ts. */
  readonly pooler?: boolean;
  /** Of the node; undefined for programs that do not poll. */
  readonly connections?: Connections;
  /** Whether polls go through this pool. */
  readonly leads?: boolean;
}

/**
 * Opens the service's own pool. Queries end before a request times out: PostgreSQL is told to end
 * them first, and where it is stalled, the client gives up a little later.
 */
export async function openDatabase(
  { url, poolSize, timeoutMs, ssl, pooler = false, connections, leads = false }: DatabaseOptions,
  { schema, entities, migrations }: Schema,
): Promise<DataSource> {
  const addresses = addressesOf(url);
  const clientTimeoutMs = Math.floor(timeoutMs * 0.8);
  const source = new DataSource({
    type: 'postgres',
    url: addresses[0]!,
    schema,
    entities,
    migrations,
    migrationsTableName: 'migrations',
    poolSize,
    ssl,
    synchronize: false,
    installExtensions: false,
    useUTC: true,
    applicationName: `strata-${schema}`,
    // Whoever uses the lost connection gets the error.
    poolErrorHandler: () => {},
    extra: {
      Client: PooledClient,
      addresses,
      pooler,
      onConnect: (client: PooledClient) =>
        connections ? connections.admit(client, { leads }) : client.identify(),
      maxLifetimeSeconds,
      // By the library's default of ten seconds a node with nothing to do opens a connection every
      // few seconds, for ever: of two that a burst of polls takes, the second is idle for longer.
      idleTimeoutMillis: 60_000,
      // What does not need the answer of the statement before it is sent behind that at once. A
      // query without an answer in time ends its connection then, so that the rollback does not
      // wait as long again.
      pipeline: true,
      connectionTimeoutMillis: clientTimeoutMs,
      ...(pooler ? {} : serverTimeouts(timeoutMs)),
      query_timeout: clientTimeoutMs,
      keepAlive: true,
    },
  });
  return source.initialize();
}

/**
 * Applies the migrations that are missing, one process at a time. Returns their names, each as
 * `schema.name`.
 */
export async function migrate(
  options: DatabaseOptions,
  schemas: readonly Schema[],
): Promise<string[]> {
  const { url, ssl, pooler = false } = options;
  const client = new PooledClient({ addresses: addressesOf(url), ssl, pooler });
  await client.connect();
  const applied: string[] = [];
  try {
    // A transaction, since a pooler gives what is of a session to somebody else.
    await client.query('BEGIN');
    await client.query('SET LOCAL statement_timeout = 0');
    await client.query('SET LOCAL idle_in_transaction_session_timeout = 0');
    await client.query(`SELECT pg_advisory_xact_lock(hashtextextended('strata migrations', 0))`);
    const ask: Ask = async (text, values) => (await client.query(text, values)).rows;
    for (const each of schemas) {
      // As at most starts: to find that out from the mapper takes longer.
      if ((await missingMigrations(ask, each)).length === 0) continue;
      const source = await openDatabase({ ...options, poolSize: 1, timeoutMs: 600_000 }, each);
      try {
        await source.query(`CREATE SCHEMA IF NOT EXISTS "${each.schema}"`);
        const migrations = await source.runMigrations({ transaction: 'each' });
        applied.push(...migrations.map(({ name }) => `${each.schema}.${name}`));
      } finally {
        await source.destroy();
      }
    }
    await client.query('COMMIT');
  } finally {
    await client.end();
  }
  return applied;
}

/** Rows of a query, by whichever client. */
export type Ask = <R>(text: string, values?: unknown[]) => Promise<R[]>;

/**
 * Names of the migrations that the database lacks. A newer database, of nodes that have been
 * replaced already, lacks none.
 */
export async function missingMigrations(
  ask: Ask,
  { schema, migrations }: Schema,
): Promise<string[]> {
  const table = `"${schema}".migrations`;
  const [found] = await ask<{ exists: boolean }>('SELECT to_regclass($1) IS NOT NULL AS exists', [
    table,
  ]);
  const rows = found!.exists ? await ask<{ name: string }>(`SELECT name FROM ${table}`) : [];
  const applied = new Set(rows.map(({ name }) => name));
  return migrations.map((each) => new each().name).filter((name) => !applied.has(name));
}
