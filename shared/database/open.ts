/**
 * Opens and migrates the database. Every service has a schema of its own in it, and a pool of its
 * own.
 */
import 'reflect-metadata';
import pg from 'pg';
import { DataSource, type EntitySchema, type MigrationInterface, type QueryRunner } from 'typeorm';

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
}

/** SQLSTATE read_only_sql_transaction: what a hot standby answers to a write. */
const readOnlyTransaction = '25006';

/** So that connections follow an address that has moved, also where nothing ended them. */
const maxLifetimeSeconds = 15 * 60;

/**
 * A client whose loss ends no process: while the pool hands a connection over, nobody listens to
 * it, and an error that nobody listens to ends Node. A server that shuts down ends connections in
 * the moment in which they are made. And one that the pool hands to nobody else
 * - after a query that got no answer in time: pg destroys its socket, and the pool would hear of
 *   that only once the socket is closed,
 * - where the server cannot be written to. The pool prefers what was used last, so a connection to a
 *   standby would stay for as long as somebody asks it.
 */
class PooledClient extends pg.Client {
  #isOfStandby = false;

  constructor(config?: pg.ClientConfig) {
    super(config);
    // Whoever uses the connection is told by its next query.
    this.on('error', () => {});
    // PostgreSQL says so before a connection takes its first query, and whenever it changes: manual,
    // "Asynchronous Operations" of the protocol.
    this.connection.on('parameterStatus', ({ parameterName, parameterValue }: ParameterStatus) => {
      if (parameterName === 'in_hot_standby') this.#isOfStandby = parameterValue === 'on';
    });
    // `query` has many overloads, all of which are passed on as they are.
    const query = this.query.bind(this) as (...args: unknown[]) => unknown;
    const watched = (...args: unknown[]): unknown => {
      const sent = query(...args);
      if (sent instanceof Promise) sent.catch((error: pg.DatabaseError) => this.#endAfter(error));
      return sent;
    };
    this.query = watched as typeof this.query;
  }

  #endAfter({ message, code }: pg.DatabaseError): void {
    if (message === 'Query read timeout' || code === readOnlyTransaction) void this.end();
  }

  /** Throws where what is read may be older than what was written. */
  assertWritable(): void {
    if (!this.#isOfStandby) return;
    const standby = 'The address of the database leads to a standby, which cannot be written to.';
    throw Object.assign(new Error(standby), { code: readOnlyTransaction });
  }
}

interface ParameterStatus {
  readonly parameterName: string;
  readonly parameterValue: string;
}

/**
 * Opens the service's own pool. Queries end before a request times out: PostgreSQL is told to end
 * them first, and where it is stalled, the client gives up a little later.
 */
export async function openDatabase(
  { url, poolSize, timeoutMs, ssl }: DatabaseOptions,
  { schema, entities, migrations }: Schema,
): Promise<DataSource> {
  const serverTimeoutMs = Math.floor(timeoutMs * 0.7);
  const clientTimeoutMs = Math.floor(timeoutMs * 0.8);
  const source = new DataSource({
    type: 'postgres',
    url,
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
      onConnect: (client: PooledClient) => client.assertWritable(),
      maxLifetimeSeconds,
      // What does not need the answer of the statement before it is sent behind that at once. A
      // query without an answer in time ends its connection then, so that the rollback does not
      // wait as long again.
      pipeline: true,
      connectionTimeoutMillis: clientTimeoutMs,
      statement_timeout: serverTimeoutMs,
      query_timeout: clientTimeoutMs,
      idle_in_transaction_session_timeout: timeoutMs * 2,
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
  const client = new pg.Client({ connectionString: options.url, ssl: options.ssl });
  // The next query tells of a loss.
  client.on('error', () => {});
  await client.connect();
  const applied: string[] = [];
  try {
    await client.query(`SELECT pg_advisory_lock(hashtextextended('strata migrations', 0))`);
    const ask: Ask = async (text, values) => (await client.query(text, values)).rows;
    for (const each of schemas) {
      // As at most starts: to find that out from the mapper takes longer.
      if ((await missingMigrations(ask, each)).length === 0) continue;
      await client.query(`CREATE SCHEMA IF NOT EXISTS "${each.schema}"`);
      const source = await openDatabase({ ...options, poolSize: 1, timeoutMs: 600_000 }, each);
      try {
        const migrations = await source.runMigrations({ transaction: 'each' });
        applied.push(...migrations.map(({ name }) => `${each.schema}.${name}`));
      } finally {
        await source.destroy();
      }
    }
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
