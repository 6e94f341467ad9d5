/**
 * The embedded database over ends of every kind, with real processes. The soak kills a first start in
 * its beginning and at its end, too.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { openEmbeddedPostgres, type EmbeddedPostgres } from '../../shared/database/embedded.ts';
import { guard } from '../support/servers.ts';
import { inSoak } from '../support/soak.ts';

const embedded = new URL('../../shared/database/embedded.ts', import.meta.url).href;
const children: ChildProcess[] = [];
const opened: EmbeddedPostgres[] = [];
const dismissals: (() => void)[] = [];
let dataDir: string;
let cluster: string;
/** A directory with a cluster that was stopped in order: to make one takes a second. */
let made: string;

function useNewDirectory(): void {
  dataDir = mkdtempSync(join(tmpdir(), 'strata-embedded-'));
  chmodSync(dataDir, 0o755);
  cluster = join(dataDir, 'postgres');
}
/** The directory of this test has a cluster already. */
const copyMade = (): Buffer => execFileSync('cp', ['-a', `${made}/.`, dataDir]);

beforeAll(async () => {
  useNewDirectory();
  made = dataDir;
  await (await openEmbeddedPostgres({ dataDir })).stop();
});
afterAll(() => rmSync(made, { recursive: true, force: true }));
beforeEach(useNewDirectory);
afterEach(async () => {
  for (const child of children.splice(0)) await kill(child);
  for (const { stop } of opened.splice(0)) await stop();
  if (existsSync(join(cluster, 'postmaster.pid')))
    await (await openEmbeddedPostgres({ dataDir })).stop();
  for (const dismiss of dismissals.splice(0)) dismiss();
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
});

async function open(log?: (message: string) => void): Promise<EmbeddedPostgres> {
  const server = await openEmbeddedPostgres({ dataDir, ...(log ? { log } : {}) });
  opened.push(server);
  dismissals.push(guard(server.pid, 'QUIT', dataDir));
  return server;
}

/**
 * A process of its own that opens the database, prints its address, and stays as long as this one.
 */
function spawnOwner(): ChildProcess {
  const child = spawn(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      `
    const { openEmbeddedPostgres } = await import(process.argv[1]);
    const { url, stop } = await openEmbeddedPostgres({ dataDir: process.argv[2] });
    process.stdin.once('end', () => stop()).resume();
    console.log(url);`,
      embedded,
      dataDir,
    ],
    { stdio: ['pipe', 'pipe', 'pipe'] },
  );
  children.push(child);
  return child;
}

async function addressOf(child: ChildProcess): Promise<string> {
  let complaint = '';
  child.stderr!.on('data', (chunk: Buffer) => {
    complaint += chunk.toString();
  });
  const [line] = await Promise.race([
    once(createInterface(child.stdout!), 'line') as Promise<[string]>,
    once(child, 'close').then(() => {
      throw new Error(complaint);
    }),
  ]);
  return line;
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

async function query<R>(url: string, text: string): Promise<R[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows as R[];
  } finally {
    await client.end();
  }
}

const numbers = async (url: string): Promise<number[]> =>
  (await query<{ n: number }>(url, 'SELECT n FROM kept ORDER BY n')).map(({ n }) => n);
const postmaster = (): number =>
  Number(readFileSync(join(cluster, 'postmaster.pid'), 'utf8').split('\n')[0]);
const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

test('what was written before a stop is there after the next start', async () => {
  copyMade();
  const first = await open();
  await query(first.url, 'CREATE TABLE kept AS SELECT 1 AS n');
  await first.stop();
  expect(isAlive(first.pid)).toBe(false);
  expect(existsSync(join(dataDir, 'strata.lock'))).toBe(false);
  const second = await open();
  expect(await numbers(second.url)).toEqual([1]);
});

test('it listens on loopback alone, asks for a password, and waits for the disk', async () => {
  copyMade();
  const { url } = await open();
  const settings = await query<{ name: string; setting: string }>(
    url,
    `SELECT name, setting FROM pg_settings WHERE name IN
    ('listen_addresses', 'unix_socket_directories', 'fsync', 'synchronous_commit', 'full_page_writes', 'max_connections')`,
  );
  expect(Object.fromEntries(settings.map(({ name, setting }) => [name, setting]))).toEqual({
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    fsync: 'on',
    synchronous_commit: 'on',
    full_page_writes: 'on',
    max_connections: '200',
  });
  expect(statSync(join(dataDir, 'postgres.password')).mode & 0o777).toBe(0o600);
  const wrong = new URL(url);
  wrong.password = 'guess';
  await expect(query(wrong.href, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' });
});

test('after kill -9 the left-over server is stopped, and what was committed is there', async () => {
  copyMade();
  const owner = spawnOwner();
  const url = await addressOf(owner);
  await query(url, 'CREATE TABLE kept (n int)');
  const client = new pg.Client({ connectionString: url }).on('error', () => {});
  await client.connect();
  await client.query('INSERT INTO kept VALUES (1), (2)');
  await client.query('BEGIN');
  await client.query('INSERT INTO kept VALUES (3)');
  const leftOver = postmaster();
  await kill(owner);
  expect(isAlive(leftOver)).toBe(true);

  const said: string[] = [];
  const next = await open((message) => said.push(message));
  expect(said).toEqual([expect.stringContaining(`process ${leftOver}`)]);
  expect(next.pid).not.toBe(leftOver);
  expect(await numbers(next.url)).toEqual([1, 2]);
});

test('after kill -9 of Strata and of the server, what was committed is there', async () => {
  copyMade();
  const owner = spawnOwner();
  const url = await addressOf(owner);
  await query(url, 'CREATE TABLE kept AS SELECT 1 AS n');
  const server = postmaster();
  await kill(owner);
  process.kill(server, 'SIGKILL');
  expect(await numbers((await open()).url)).toEqual([1]);
});

const middle = [
  ['in the middle', () => existsSync(join(dataDir, 'postgres.new', 'base', '1'))],
] as const;
const beginningAndEnd = [
  ['begun', () => existsSync(join(dataDir, 'postgres.new'))],
  ['complete', () => existsSync(cluster)],
] as const;

test.each([...middle, ...(inSoak ? beginningAndEnd : [])])(
  'a start killed with its cluster %s does not spoil the next',
  async (_, reached) => {
    const owner = spawnOwner();
    // A busy machine may be so late that it is complete.
    while (!reached() && !existsSync(cluster)) await delay(1);
    await kill(owner);
    const { url } = await open();
    await query(url, 'CREATE TABLE kept AS SELECT 1 AS n');
    expect(await numbers(url)).toEqual([1]);
    expect(readdirSync(dataDir).toSorted()).toEqual([
      'lock.sqlite',
      'postgres',
      'postgres.password',
      'strata.lock',
    ]);
  },
);

test('a second live process on the same directory is refused, and the first is not disturbed', async () => {
  copyMade();
  const owner = spawnOwner();
  const url = await addressOf(owner);
  const said = `Another Strata (process ${owner.pid}) uses ${dataDir}. Stop it, or give this one another DATA_DIR.`;
  await expect(open()).rejects.toThrow(said);
  await query(url, 'SELECT 1');
});

test('of many that find the same dead holder, one starts', async () => {
  copyMade();
  writeFileSync(join(dataDir, 'strata.lock'), String(process.pid));
  const answers = await Promise.allSettled([1, 2, 3, 4].map(() => addressOf(spawnOwner())));
  expect(answers.map(({ status }) => status).toSorted()).toEqual([
    'fulfilled',
    'rejected',
    'rejected',
    'rejected',
  ]);
});

test.each([
  [
    'names a live process of another program',
    (pid: number) => `${pid}\n${cluster}\n0\n5432\n\n127.0.0.1\n`,
  ],
  ...(inSoak ? [['is empty', () => ''] as const] : []),
])('a pid file that %s does not prevent a start', async (_, text) => {
  copyMade();
  // Its arguments name the cluster, and it is the server's own user's: PostgreSQL takes no other
  // for a server.
  const { uid, gid } = statSync(cluster);
  const other = spawn('/bin/sh', ['-c', 'read -r line', 'sh', cluster], {
    uid,
    gid,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  children.push(other);
  await once(other, 'spawn');
  writeFileSync(join(cluster, 'postmaster.pid'), text(other.pid!));
  await query((await open()).url, 'SELECT 1');
  expect([other.exitCode, other.signalCode]).toEqual([null, null]);
});

test('a directory that holds something else is left as it is', async () => {
  mkdirSync(cluster);
  writeFileSync(join(cluster, 'letter.txt'), 'dear reader');
  writeFileSync(join(dataDir, 'postgres.password'), 'unused');
  await expect(open()).rejects.toThrow(/does not start: .*postgres/s);
  expect(readFileSync(join(cluster, 'letter.txt'), 'utf8')).toBe('dear reader');
});

test("a directory that the server's user may not enter is named, with the remedy", async () => {
  const closed = join(dataDir, 'closed');
  mkdirSync(closed, { mode: 0o700 });
  if (process.getuid!() !== 0) chmodSync(closed, 0o500);
  await expect(openEmbeddedPostgres({ dataDir: join(closed, 'data') })).rejects.toThrow(
    new RegExp(`${closed}.*DATA_DIR.*DATABASE_URL`),
  );
  chmodSync(closed, 0o700);
});
