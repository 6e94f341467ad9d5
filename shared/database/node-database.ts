/**
 * The database of a node: started where it is embedded, brought up to date where the node is alone,
 * with two pools:
 *
 * | Pool     | Of                                             | Connections         |
 * |----------|------------------------------------------------|---------------------|
 * | commits  | the change feed, its leases, the outbox        | `forFeed`           |
 * | services | all services of the node: they have one schema each, and name it | the others |
 *
 * Whoever waits for a lock in the one takes no connection from the other, so a node keeps its lease.
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
  /** The tables of the services that the node hosts. */
  readonly services: DataSource;
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

/**
 * Both pools close with the node. One process alone migrates by itself. Throws CannotStart where the
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
  const open = async (own: DatabaseOptions, opened: readonly Schema[]): Promise<DataSource> => {
    const source = await lifetime.whileWanted(() => openMigrated(own, opened));
    lifetime.closeWith(() => source.destroy());
    return source;
  };
  const commits = await open({ ...options, leads: true }, [commitSchema]);
  const poolSize = settings.db_pool_size - options.poolSize;
  const services = await open({ ...options, poolSize }, hosted);
  return { commits, services, connections };
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
async function openMigrated(
  options: DatabaseOptions,
  schemas: readonly Schema[],
): Promise<DataSource> {
  const { url, timeoutMs } = options;
  try {
    const source = await openDatabase(options, together(schemas));
    try {
      for (const each of schemas) {
        const missing = await missingMigrations((text, values) => source.query(text, values), each);
        if (missing.length > 0) throw notMigrated(missing, { url, schema: each.schema });
      }
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

/** As one, for a pool: each entity names its own schema. Nothing migrates by it. */
function together(schemas: readonly Schema[]): Schema {
  const [first, ...others] = schemas;
  if (first && others.length === 0) return first;
  const entities = schemas.flatMap((each) => each.entities);
  return { schema: 'services', entities, migrations: [] };
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
