/**
 * A real PostgreSQL for tests, which can be killed, restarted and frozen, and fresh databases on
 * it.
 */
import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { openEmbeddedPostgres } from '../../shared/database/embedded.ts';
import { binary, guard, inherited } from './servers.ts';
import { secretKey } from './strata.ts';

export interface Server {
  readonly url: string;
  readonly pid?: number;
  readonly stop: () => Promise<void>;
  /**
   * Ends the server and starts it again at the same address. SIGINT ends its sessions in order;
   * after SIGQUIT and SIGKILL it has to recover. `whileDown` may change its files in between.
   */
  readonly restart: (
    signal?: 'SIGINT' | 'SIGQUIT' | 'SIGKILL',
    whileDown?: (dataDirectory: string) => void | Promise<unknown>,
  ) => Promise<void>;
  /** Stops all its processes where they are; returns how to let them continue. */
  readonly freeze: () => Promise<() => void>;
  /**
   * Sets its clock, and no other, to so many seconds from now. Only of a server with a clock of its
   * own.
   */
  readonly setClock: (seconds: number) => Promise<void>;
}

/** libfaketime of this machine reads the clock again from its file after this long. */
const clockCacheSeconds = 1;

/** What a process of this machine takes another clock by: libfaketime. */
export function fakeClockLibrary(): string {
  const print = ['-f', '+0', 'printenv', 'LD_PRELOAD'];
  return execFileSync(binary('faketime'), print, { encoding: 'utf8' }).trim();
}

/** What makes a process of this machine take its clock from a file. */
export function fakeClock(file: string): Record<string, string> {
  return {
    LD_PRELOAD: fakeClockLibrary(),
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_CACHE_DURATION: String(clockCacheSeconds),
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    FAKETIME_DISABLE_SHM: '1',
  };
}

/**
 * Starts a PostgreSQL in a temporary directory. It does not wait for the disk: what it has answered
 * survives its own end, not the machine's.
 */
export async function startPostgres({
  ownClock = false,
}: { ownClock?: boolean } = {}): Promise<Server> {
  const dataDir = mkdtempSync(join(tmpdir(), 'strata-test-'));
  chmodSync(dataDir, 0o755);
  const server = await openEmbeddedPostgres({
    dataDir,
    // Connections for the clusters of several files at once, which share the server of a run.
    flags: ['fsync=off', 'full_page_writes=off', 'max_connections=600'].flatMap((setting) => [
      '-c',
      setting,
    ]),
  });
  const dismiss = guard(server.pid, 'QUIT', dataDir);
  const cluster = join(dataDir, 'postgres');
  const clock = join(dataDir, 'clock');
  const environment = { LC_ALL: 'C', TZ: 'UTC', ...(ownClock ? fakeClock(clock) : {}) };
  let { pid } = server;
  let restarted: ChildProcess | undefined;

  async function end(signal: NodeJS.Signals): Promise<void> {
    process.kill(pid, signal);
    const isInUse = (): boolean => existsSync(join(cluster, 'postmaster.pid'));
    while (isAlive(pid)) {
      await delay(10);
      // Its file is the last that a server removes. What may hang after it is libfaketime, where a
      // process that was killed held its semaphore.
      if (!isInUse()) signalIfAlive(pid, 'SIGKILL');
    }
  }

  const started: Server = {
    url: server.url,
    pid,
    async restart(signal = 'SIGINT', whileDown = () => {}) {
      // The command line that it was started with: the program, then its arguments in quotes.
      const command = readFileSync(join(cluster, 'postmaster.opts'), 'utf8');
      const program = command.slice(0, command.indexOf(' "'));
      const flags = [...command.matchAll(/"([^"]*)"/g)].map(([, flag]) => flag!);
      const { uid, gid } = statSync(cluster);
      await end(signal);
      await whileDown(cluster);
      // Sessions of a killed server hold its memory for a moment more, and a new one refuses to
      // start meanwhile.
      for (const until = Date.now() + 90_000; ;) {
        restarted = spawn(program, flags, {
          uid,
          gid,
          cwd: dataDir,
          env: environment,
          stdio: 'ignore',
          detached: true,
        });
        restarted.unref();
        pid = restarted.pid!;
        restarted.once('exit', guard(pid, 'QUIT'));
        if (await accepts(server.url, restarted, until)) return;
        if (Date.now() > until) throw new Error('the test PostgreSQL does not come back');
      }
    },
    async freeze() {
      const pids = await withClient(server.url, async (client) =>
        (await client.query<{ pid: number }>('SELECT pid FROM pg_stat_activity')).rows.map(
          (row) => row.pid,
        ),
      );
      const all = [pid, ...pids];
      for (const each of all) signalIfAlive(each, 'SIGSTOP');
      return () => {
        for (const each of all) signalIfAlive(each, 'SIGCONT');
      };
    },
    async setClock(seconds) {
      writeFileSync(clock, `${seconds < 0 ? '' : '+'}${seconds}`);
      if (ownClock) await delay(clockCacheSeconds * 1000 + 100);
    },
    async stop() {
      if (restarted) await end('SIGINT');
      await server.stop();
      dismiss();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
  if (ownClock) {
    writeFileSync(clock, '+0');
    await started.restart();
  }
  return started;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** A backend that was listed may have ended since. */
function signalIfAlive(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/**
 * Resolves once the server takes connections; false where it ends instead, or does not until then.
 */
async function accepts(url: string, server: ChildProcess, until: number): Promise<boolean> {
  const ended = once(server, 'exit');
  while (server.exitCode === null && server.signalCode === null && Date.now() < until) {
    if (await withClient(url, async () => true).catch(() => false)) return true;
    await Promise.race([ended, delay(20)]);
  }
  return false;
}

export async function withClient<T>(
  url: string,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({ connectionString: url }).on('error', () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

export interface Database {
  readonly url: string;
  readonly query: <R>(text: string, values?: unknown[]) => Promise<R[]>;
  /**
   * Copies it as it is now; who is connected loses the connection. Returns how to put the copy in
   * its place, for a restore, which resolves to when nobody could reach the newer one any more, in
   * milliseconds of performance.now().
   */
  readonly backUp: () => Promise<() => Promise<number>>;
  readonly drop: () => Promise<void>;
}

/** A fresh, empty database, on the server of this run by default. */
export async function createDatabase(server = process.env.TEST_DATABASE_URL!): Promise<Database> {
  const name = freshName();
  await withClient(server, (client) => client.query(`CREATE DATABASE ${name}`));
  return databaseOf(server, name);
}

/**
 * A fresh database with Strata's tables, on the server of this run: a copy, which is there sooner
 * than a migrated one.
 */
export async function strataDatabase(): Promise<Database> {
  const server = process.env.TEST_DATABASE_URL!;
  const name = freshName();
  const template = `strata_${hashOf(schemaFiles())}`;
  await withClient(server, async (client) => {
    const copy = () => client.query(`CREATE DATABASE ${name} TEMPLATE ${template}`);
    await copy().catch(async (error: pg.DatabaseError) => {
      const isMissing = error.code === '3D000';
      if (!isMissing) throw error;
      await makeTemplate(client, server, template);
      await copy();
    });
  });
  return databaseOf(server, name);
}

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const objectInUse = '55006';

const freshName = (): string => `t_${randomUUID().replaceAll('-', '')}`;

const root = join(import.meta.dirname, '../..');

/**
 * What the migrations are written in. A mutant changes them under a server that other runs have
 * used.
 */
const schemaFiles = (): string[] =>
  ['services/*/schema.ts', 'shared/commits/schema.ts', 'shared/database/*.ts']
    .flatMap((pattern) => globSync(pattern, { cwd: root }))
    .sort();

function hashOf(files: readonly string[]): string {
  const hash = createHash('sha256');
  for (const file of files) hash.update(readFileSync(join(root, file)));
  return hash.digest('hex').slice(0, 16);
}

/**
 * Migrates a database under another name first, so that whoever finds the template finds all of it.
 * Once, whoever asks beside.
 */
async function makeTemplate(client: pg.Client, server: string, template: string): Promise<void> {
  await client.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [template]);
  const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [template]);
  if (rowCount === 0) {
    const unfinished = `${template}_unfinished`;
    await client.query(`DROP DATABASE IF EXISTS ${unfinished} WITH (FORCE)`);
    await client.query(`CREATE DATABASE ${unfinished}`);
    await migrate(databaseOf(server, unfinished).url);
    await client.query(`ALTER DATABASE ${unfinished} RENAME TO ${template}`);
  }
  await client.query('SELECT pg_advisory_unlock(hashtextextended($1, 0))', [template]);
}

/** As operators do. Other work of this process continues meanwhile, such as a proxy. */
export async function migrate(
  url: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<void> {
  await promisify(execFile)(process.execPath, ['strata.ts', '--migrate'], {
    cwd: root,
    env: { ...inherited(), DATABASE_URL: url, SECRET_KEY: secretKey, ...environment },
  });
}

/** One that is there already. */
export const databaseAt = (url: string): Database =>
  databaseOf(process.env.TEST_DATABASE_URL!, new URL(url).pathname.slice(1));

function databaseOf(server: string, name: string): Database {
  const url = new URL(server);
  url.pathname = `/${name}`;
  // Kept for the next query: to make a connection costs more than most queries do.
  const pool = new pg.Pool({
    connectionString: url.href,
    idleTimeoutMillis: 2_000,
    allowExitOnIdle: true,
  }).on('error', () => {});
  /** PostgreSQL renames a database, or copies it, while nobody is connected. */
  const rename = (from: string, to: string): Promise<void> =>
    withClient(server, async (client) => {
      const end = (): Promise<unknown> =>
        withClient(server, (other) =>
          other.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [
            from,
          ]),
        );
      const ending = setInterval(() => void end().catch(() => {}), 50);
      try {
        for (const until = Date.now() + 60_000; ;) {
          const refusal = await client
            .query(`ALTER DATABASE ${from} RENAME TO ${to}`)
            .then(() => undefined)
            .catch((error: pg.DatabaseError) => error);
          if (refusal === undefined) return;
          // It gives up after five seconds in which somebody was always connected, as the nodes of
          // a busy machine may be.
          if (refusal.code !== objectInUse || Date.now() > until) throw refusal;
        }
      } finally {
        clearInterval(ending);
      }
    });
  return {
    url: url.href,
    query: async (text, values) => (await pool.query(text, values)).rows,
    async backUp() {
      const [aside, copy] = [`${name}_aside`, `${name}_copy`];
      await rename(name, aside);
      await withClient(server, (client) =>
        client.query(`CREATE DATABASE ${copy} TEMPLATE ${aside}`),
      );
      await rename(aside, name);
      return async () => {
        await rename(name, aside);
        const gone = performance.now();
        await rename(copy, name);
        await withClient(server, (client) => client.query(`DROP DATABASE ${aside}`));
        return gone;
      };
    },
    async drop() {
      await withClient(server, (client) => client.query(`DROP DATABASE ${name} WITH (FORCE)`));
      await pool.end();
    },
  };
}
