/**
 * The database of a node: started where it is embedded, brought up to date where the node is alone,
 * with a pool for each schema.
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
  /**
   * Opens a pool on a schema, which closes with the node. Throws CannotStart where its tables are
   * not what this node's code expects.
   */
  readonly open: (schema: Schema) => Promise<DataSource>;
}

export interface NodeDatabaseOptions {
  readonly settings: Settings;
  readonly lifetime: Lifetime;
  /** Of every piece, hosted or not. */
  readonly schemas: () => Promise<readonly Schema[]>;
}

/** One process alone migrates by itself. Throws CannotStart where the database cannot be used. */
export async function openNodeDatabase({
  settings,
  lifetime,
  schemas,
}: NodeDatabaseOptions): Promise<NodeDatabase> {
  const connections = new Connections();
  const options: DatabaseOptions = {
    url: settings.database_url ?? (await startEmbeddedPostgres(settings, lifetime)),
    poolSize: settings.db_pool_size,
    timeoutMs: settings.request_timeout_ms,
    ssl: settings.db_ssl,
    pooler: settings.db_pooler,
    connections,
  };
  if (settings.nats_url === null) {
    const all = await schemas();
    await lifetime.whileWanted(() => migrateAll(options, all));
  }
  const open = async (schema: Schema): Promise<DataSource> => {
    const leads = schema === commitSchema;
    const source = await lifetime.whileWanted(() => openMigrated({ ...options, leads }, schema));
    lifetime.closeWith(() => source.destroy());
    return source;
  };
  return { commits: await open(commitSchema), connections, open };
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
  const { url } = options;
  try {
    const source = await openDatabase(options, schema);
    const missing = await missingMigrations((text, values) => source.query(text, values), schema);
    try {
      if (missing.length > 0) throw notMigrated(missing, { url, schema: schema.schema });
      await assertTimeouts(source, options.timeoutMs);
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
