/**
 * The database of a node: started where it is embedded, brought up to date where the node is alone,
 * with a pool for the change feed and one for each service:
 *
 * | Pool    | Of                                      | Connections, of `db_pool_size`      |
 * |---------|-----------------------------------------|-------------------------------------|
 * | commits | the change feed, its leases, the outbox | `forFeed`                           |
 * | service | the tables of one service of the node   | `forEach`, the others in equal parts |
 *
 * Whoever waits for a lock in the one takes no connection from the other. So a node keeps its lease,
 * and a transaction that calls another service of its node is answered although all connections of
 * its own wait for it.
 */
import type { DataSource } from 'typeorm';
import { commitSchema } from '../commits/schema.ts';
import type { Lifetime } from '../process/lifetime.ts';
import type { Settings } from '../settings/settings.ts';
import { Connections } from './connections.ts';
import { openEmbeddedPostgres } from './embedded.ts';
import {
  migrate,
  missingMigrations,
  openDatabase,
  type DatabaseOptions,
  type Schema,
} from './open.ts';
import { assertTimeouts } from './pooler.ts';
import { cannotUseDatabase, notMigrated } from './unusable.ts';

export interface NodeDatabase {
  /** The tables that every commit writes. */
  readonly commits: DataSource;
  /** The connections of all its pools. */
  readonly connections: Connections;
  /** The tables of a service that the node hosts. */
  readonly service: (schema: Schema) => DataSource;
}

export interface NodeDatabaseOptions {
  readonly settings: Settings;
  readonly lifetime: Lifetime;
  /** Of every piece, hosted or not. */
  readonly schemas: () => Promise<readonly Schema[]>;
  readonly hosted: readonly Schema[];
}

/** Of `db_pool_size`: one each to poll, to read leases, and for the rest. */
const forFeed = (total: number): number => Math.min(3, Math.floor(total / 2));
/** Of the rest, for each of so many services: no more than one of them has use for. */
const forEach = (rest: number, services: number): number =>
  Math.max(1, Math.min(10, Math.floor(rest / services)));

/**
 * All pools close with the node. One process alone migrates by itself. Throws CannotStart where the
 * database cannot be used, or its tables are not what this node's code expects.
 */
export async function openNodeDatabase({
  settings,
  lifetime,
  schemas,
  hosted,
}: NodeDatabaseOptions): Promise<NodeDatabase> {
  const connections = new Connections();
  const options: DatabaseOptions = {
    url: settings.database_url ?? (await startEmbeddedPostgres(settings, lifetime)),
    poolSize: forFeed(settings.db_pool_size),
    timeoutMs: settings.request_timeout_ms,
    ssl: settings.db_ssl,
    pooler: settings.db_pooler,
    connections,
  };
  if (settings.nats_url === null) {
    const all = await schemas();
    await lifetime.whileWanted(() => migrateAll(options, all));
  }
  const open = async (own: DatabaseOptions, schema: Schema): Promise<DataSource> => {
    const source = await lifetime.whileWanted(() => openMigrated(own, schema));
    lifetime.closeWith(() => source.destroy());
    return source;
  };
  const commits = await open({ ...options, leads: true }, commitSchema);
  const poolSize = forEach(settings.db_pool_size - options.poolSize, hosted.length);
  const pools = new Map<Schema, DataSource>();
  for (const schema of hosted) pools.set(schema, await open({ ...options, poolSize }, schema));
  return { commits, connections, service: (schema) => pools.get(schema)! };
}

/** Returns what was applied. Throws CannotStart where the database cannot be used. */
export async function migrateAll(
  options: DatabaseOptions,
  schemas: readonly Schema[],
): Promise<string[]> {
  try {
    return await migrate(options, [commitSchema, ...schemas]);
  } catch (error) {
    throw cannotUseDatabase(error, options.url);
  }
}

/** Throws CannotStart where the database cannot be used, or lacks what this node's code expects. */
async function openMigrated(options: DatabaseOptions, schema: Schema): Promise<DataSource> {
  const { url, timeoutMs } = options;
  try {
    const source = await openDatabase(options, schema);
    try {
      const missing = await missingMigrations((text, values) => source.query(text, values), schema);
      if (missing.length > 0) throw notMigrated(missing, { url, schema: schema.schema });
      await assertTimeouts(source, timeoutMs);
      return source;
    } catch (error) {
      await source.destroy();
      throw error;
    }
  } catch (error) {
    throw cannotUseDatabase(error, url);
  }
}

/**
 * A signal waits until the server is up: one that is stopped half made is left to the next start to
 * clear away.
 */
async function startEmbeddedPostgres(settings: Settings, lifetime: Lifetime): Promise<string> {
  const embedded = await openEmbeddedPostgres({ dataDir: settings.data_dir });
  lifetime.closeWith(embedded.stop);
  return embedded.url;
}
