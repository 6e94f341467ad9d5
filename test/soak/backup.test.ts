/**
 * Backup and restore of the embedded database: writers, kill -9 of Strata and of its server, and
 * back to a moment. Everything that was answered before it is there, nothing that began after it.
 * And what a restore refuses. Under running gateways: restore.test.ts.
 */
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import pg from 'pg';
import { basesIn, readManifest } from '../../shared/database/backup/manifest.ts';
import { nameOf, segmentOf } from '../../shared/database/backup/wal.ts';
import { openEmbeddedPostgres } from '../../shared/database/embedded.ts';
import { requireProvedAudit } from '../support/audit.ts';
import { eventually } from '../support/cluster.ts';
import { inherited } from '../support/servers.ts';
import {
  Client,
  adminPassword,
  createTenant,
  memberPassword,
  signIn,
  startStrata,
  type Running,
} from '../support/strata.ts';

let scratch: string;
const started: Running[] = [];
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'strata-backup-'));
  chmodSync(scratch, 0o755);
});
afterEach(async () => {
  for (const each of started.splice(0)) await each.stop();
});
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const start = async (dataDir: string): Promise<Running> => {
  const strata = await startStrata({ DATA_DIR: dataDir, SECRET_KEY: '' });
  started.push(strata);
  return strata;
};

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly error: string;
}
/** `npm run backup` or `npm run restore`, for this DATA_DIR. */
async function run(dataDir: string, ...args: readonly string[]): Promise<Ended> {
  const options = { env: { ...inherited(), DATA_DIR: dataDir } };
  const { stdout, stderr, code } = await promisify(execFile)(
    process.execPath,
    ['backup.ts', ...args],
    options,
  ).then(
    (ended) => ({ ...ended, code: 0 }),
    (error: { stdout: string; stderr: string; code: number }) => error,
  );
  return { code, out: stdout, error: stderr.trim() };
}
const succeeded = async (ending: Promise<Ended>): Promise<string> => {
  const { code, out, error } = await ending;
  expect([code, error]).toEqual([0, '']);
  return out;
};

interface Write {
  readonly value: number;
  readonly began: number;
  readonly ended: number;
  readonly revision: number;
}
/**
 * Writes ever higher values, one after the other, until it is told to end or is not answered. The
 * clock is the server's.
 */
class Writer {
  readonly answered: Write[] = [];
  #isOver = false;
  readonly #ended: Promise<void>;
  constructor(write: (value: number) => ReturnType<Client['put']>) {
    this.#ended = this.#go(write);
  }
  async #go(write: (value: number) => ReturnType<Client['put']>): Promise<void> {
    for (let value = 1; !this.#isOver; value += 1) {
      const began = Date.now();
      const answer = await write(value).catch(() => undefined);
      if (!answer) return;
      const revision = Number(answer.headers.get('x-config-revision'));
      if (answer.status < 300) this.answered.push({ value, began, ended: Date.now(), revision });
    }
  }
  end(): Promise<void> {
    this.#isOver = true;
    return this.#ended;
  }
  async more(count: number): Promise<void> {
    const until = this.answered.length + count;
    await eventually(
      async () => expect(this.answered.length).toBeGreaterThanOrEqual(until),
      60_000,
    );
  }
  /** Throws unless the value is one that may be there at that moment. */
  expectAsOf(moment: number, value: number): void {
    const before = this.answered.filter(({ ended }) => ended < moment);
    const after = this.answered.find(({ began }) => began > moment);
    expect(value).toBeGreaterThanOrEqual(before.at(-1)!.value);
    expect(value).toBeLessThan(after?.value ?? Infinity);
  }
}

/** A moment with nothing in its millisecond, so that before and after are clear. */
async function moment(): Promise<Date> {
  await delay(2);
  const now = new Date();
  await delay(2);
  return now;
}

async function killAll(strata: Running, dataDir: string): Promise<void> {
  const [pid] = readFileSync(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8').split('\n');
  process.kill(strata.pid, 'SIGKILL');
  process.kill(Number(pid), 'SIGKILL');
  if (strata.process.exitCode === null && strata.process.signalCode === null)
    await once(strata.process, 'exit');
}

/** Of the tenant, the oldest first. */
async function revisionsOf(admin: Client, tenantId: string): Promise<number[]> {
  const revisions: number[] = [];
  for (let query = '?limit=200'; ;) {
    const { body } = await admin.get(`/tenants/${tenantId}/config/history${query}`);
    revisions.push(...body.items.map(({ revision }: { revision: number }) => revision));
    if (body.next_cursor === null) return revisions.sort((one, other) => one - other);
    query = `?limit=200&cursor=${body.next_cursor}`;
  }
}

const basesOf = (backup: string): string[] =>
  readdirSync(backup).filter((name) => name.startsWith('base-'));

/**
 * Begins a backup and kills it. One that was whole by then, which a busy machine noticed too late,
 * is begun again.
 */
async function cutOffBackup(dataDir: string, backup: string): Promise<void> {
  for (let tries = 1; tries <= 20; tries += 1) {
    const child = spawn(process.execPath, ['backup.ts', 'backup', backup], {
      env: { PATH: process.env.PATH, DATA_DIR: dataDir },
      stdio: 'ignore',
    });
    const exited = once(child, 'exit');
    const isBegun = async (): Promise<void> => {
      for (const until = Date.now() + 60_000; Date.now() < until; await delay(5))
        if (existsSync(backup) && basesOf(backup).length > 0) return;
    };
    await Promise.race([isBegun(), exited]);
    child.kill('SIGKILL');
    await exited;
    if (basesIn(backup).length === 0) return;
    rmSync(backup, { recursive: true });
  }
  throw new Error('Every backup was whole before it was killed.');
}

const modesIn = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((path) => (statSync(join(directory, path)).mode & 0o077).toString(8))
    .filter((open) => open !== '0');

test('after kill -9 under writers it goes back to a moment, and later to the end: all that was answered is there, and no more', async () => {
  const dataDir = join(scratch, 'data');
  const backup = join(scratch, 'backup');
  let strata = await start(dataDir);
  let platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  const { id, admin, emails } = await createTenant(strata.url, platform, 'Drill');
  const agent = `/tenants/${id}/config/agents/drill`;
  const entry = '/config/global/drill';
  const writers = [
    new Writer((value) => admin.put(agent, { custom: { value } })),
    new Writer((value) => platform.put(entry, { config_value: value, is_public: true })),
  ];
  await Promise.all(writers.map((writer) => writer.more(3)));
  await cutOffBackup(dataDir, backup);
  expect(basesOf(backup)).toHaveLength(1);
  expect(basesIn(backup)).toEqual([]);
  // Where the server takes long to notice that the other is gone, it is refused.
  const taken = await eventually(async () => {
    const ended = await run(dataDir, 'backup', backup);
    if (ended.error.startsWith('Another backup')) throw new Error(ended.error);
    return ended;
  }, 120_000);
  expect([taken.code, taken.error]).toEqual([0, '']);
  expect(taken.out).toMatch(/secret\.key is not in it/);
  expect(basesOf(backup)).toHaveLength(1);
  expect(basesIn(backup)).toHaveLength(1);
  expect(modesIn(backup)).toEqual([]);
  await Promise.all(writers.map((writer) => writer.more(5)));
  const until = await moment();
  await Promise.all(writers.map((writer) => writer.more(5)));
  const late = await signIn(strata.url, emails.tenant_admin!, memberPassword);
  const { code, error } = await run(dataDir, 'restore', backup);
  expect([code, error]).toEqual([1, expect.stringMatching(/^Another Strata .*uses .*$/)]);
  await killAll(strata, dataDir);
  await Promise.all(writers.map((writer) => writer.end()));

  // As another zone writes it, to the microsecond.
  const text = until.toISOString().replace('Z', '000+00:00');
  const back = await succeeded(run(dataDir, 'restore', backup, '--until', text));
  expect(back).toMatch(/The previous files are in .*before-restore/);
  strata = await start(dataDir);
  const known = new Client(strata.url, admin.token);
  platform = new Client(strata.url, platform.token);
  const [ofAgent, ofEntry] = writers;
  const agentNow = (await known.get(agent)).body.custom.value;
  ofAgent!.expectAsOf(until.getTime(), agentNow);
  ofEntry!.expectAsOf(until.getTime(), (await platform.get(entry)).body.config_value);
  expect((await new Client(strata.url, late.token).get(agent)).status).toBe(401);
  await requireProvedAudit(platform);
  const revisions = await revisionsOf(known, id);
  expect(revisions).toEqual(revisions.map((_each, index) => index + 1));
  const newest = await known.put(agent, { custom: { value: 'after' } });
  expect(Number(newest.headers.get('x-config-revision'))).toBeGreaterThan(
    ofAgent!.answered.at(-1)!.revision,
  );

  // The log continues in another timeline, which no new backup begins.
  const again = new Writer((value) => known.put(agent, { custom: { value } }));
  await again.more(5);
  await killAll(strata, dataDir);
  await again.end();
  await succeeded(run(dataDir, 'restore', backup));
  strata = await start(dataDir);
  const last = (await new Client(strata.url, admin.token).get(agent)).body.custom.value;
  again.expectAsOf(Infinity, last);
  await requireProvedAudit(new Client(strata.url, platform.token));
});

/** What the last of them gives, in the database of this DATA_DIR. */
async function query(dataDir: string, ...statements: readonly string[]): Promise<unknown[]> {
  const server = await openEmbeddedPostgres({ dataDir });
  const client = new pg.Client({ connectionString: server.url });
  let rows: { value: unknown }[] = [];
  try {
    await client.connect();
    for (const text of statements) ({ rows } = await client.query<{ value: unknown }>(text));
    return rows.map(({ value }) => value);
  } finally {
    await client.end();
    await server.stop();
  }
}

test('the log of the newest backup stays, also where an older one that is kept began further on', async () => {
  const [dataDir, backup, again] = ['moved-back', 'of-moved-back', 'moved-back-again'].map((name) =>
    join(scratch, name),
  ) as [string, string, string];
  const done = { code: 0 };
  await query(dataDir, 'CREATE TABLE kept (value int)');
  expect(await run(dataDir, 'backup', backup)).toMatchObject(done);
  const until = (await moment()).toISOString();
  const segment = ['INSERT INTO kept VALUES (0)', 'SELECT pg_switch_wal()'];
  await query(dataDir, ...Array.from({ length: 8 }, () => segment).flat());
  expect(await run(dataDir, 'backup', backup)).toMatchObject(done);
  expect(await run(dataDir, 'restore', backup, '--until', until)).toMatchObject(done);
  await query(dataDir, 'INSERT INTO kept VALUES (1)');
  expect(await run(dataDir, 'backup', backup, '--keep', '2')).toMatchObject(done);
  expect(await run(again, 'restore', backup)).toMatchObject(done);
  expect(await query(again, 'SELECT value FROM kept')).toEqual([1]);
});

test('a backup of what was restored elsewhere is the newest, in the directory of before and in another', async () => {
  const [lost, elsewhere] = ['lost', 'elsewhere'].map((name) => join(scratch, name)) as [
    string,
    string,
  ];
  const [before, other] = ['of-lost', 'of-elsewhere'].map((name) => join(scratch, name)) as [
    string,
    string,
  ];
  const done = { code: 0 };
  await query(lost, 'CREATE TABLE kept (value int)');
  expect(await run(lost, 'backup', before)).toMatchObject(done);
  // On another machine: nothing of the previous DATA_DIR is there.
  expect(await run(elsewhere, 'restore', before)).toMatchObject(done);
  await query(elsewhere, 'INSERT INTO kept VALUES (1)');
  for (const backup of [before, other])
    expect(await run(elsewhere, 'backup', backup)).toMatchObject(done);
  for (const backup of [before, other]) {
    const again = `${backup}-again`;
    expect(await run(again, 'restore', backup)).toMatchObject(done);
    expect(await query(again, 'SELECT value FROM kept')).toEqual([1]);
  }
});

test('a restore refuses what is no whole backup, and moments that it cannot reach, in one line', async () => {
  // The directories above the backup's are made, too, so that the server's user may pass them.
  const [stopped, backup, empty] = ['stopped', 'made/here/of-stopped', 'empty'].map((name) =>
    join(scratch, name),
  ) as [string, string, string];
  await (await openEmbeddedPostgres({ dataDir: stopped })).stop();
  await succeeded(run(stopped, 'backup', backup));
  const refused = async (...args: readonly string[]): Promise<string> => {
    const { code, error } = await run(empty, ...args);
    expect(code).toBeGreaterThan(0);
    expect(error).not.toContain('\n');
    expect(readdirSync(empty)).not.toContain('postgres');
    return error;
  };
  await mkdir(empty);
  chmodSync(empty, 0o755);
  const restore = (...more: readonly string[]): Promise<string> =>
    refused('restore', backup, ...more);
  expect(await restore('--until', '2026-11-22T09:30:00')).toMatch(/with its zone/);
  expect(await restore('--until', '9000-01-01T00:00Z')).toMatch(/has not been yet/);
  expect(await restore('--until', '2020-01-01T00:00+02:00')).toMatch(/reaches back to 20/);
  expect(await refused('backup', join(empty, 'within'))).toMatch(/There is no database/);

  const [name] = basesOf(backup);
  const base = join(backup, name!);
  // Back to a moment, after which the first timeline had written more, and later a gap.
  const { first_segment: begin, stop } = readManifest(base)!;
  const segment = (timeline: number, further: number): string =>
    nameOf({ timeline, number: segmentOf(begin)!.number + further });
  const beside = [segment(1, 1), segment(1, 2), segment(1, 3), segment(2, 1), segment(2, 3)];
  const written = ['00000002.history', ...beside].map((each) => join(backup, 'wal', `${each}.gz`));
  for (const each of written) await writeFile(each, gzipSync(`1\t${stop}\tbefore a moment\n`));
  expect(await restore()).toMatch(new RegExp(`lacks ${segment(2, 2)}, and continues after it`));
  for (const each of written) rmSync(each);

  await appendFile(join(base, 'files', 'PG_VERSION'), ' ');
  expect(await restore()).toMatch(/PG_VERSION is damaged/);
  rmSync(join(base, 'files', 'PG_VERSION'));
  expect(await restore()).toMatch(/PG_VERSION is missing/);
  await writeFile(join(base, 'files', 'PG_VERSION'), '18\n');
  const { first_segment: first } = readManifest(base)!;
  rmSync(join(backup, 'wal', `${first}.gz`));
  expect(await restore()).toMatch(new RegExp(`lacks ${first}, and continues after it`));
  await appendFile(join(base, 'manifest.json'), ' x');
  expect(await restore()).toMatch(/manifest\.json is damaged/);
  rmSync(join(base, 'manifest.json'));
  expect(await restore()).toMatch(/has no complete backup/);
});

test('a backup waits for one that was killed until the server has noticed, and is refused beside one that continues', async () => {
  const dataDir = join(scratch, 'turns');
  const backup = join(scratch, 'of-turns');
  const server = await openEmbeddedPostgres({ dataDir });
  // A lock of this kind is one of its database, and a backup works in that of the server's own.
  const ofServer = new URL('/postgres', server.url);
  const other = new pg.Client({ connectionString: ofServer.href });
  try {
    await other.connect();
    await other.query(`SELECT pg_advisory_lock(hashtext('strata backup'))`);
    const refused = run(dataDir, 'backup', backup);
    expect(await refused).toMatchObject({
      code: 1,
      error: expect.stringMatching(/^Another backup/),
    });
    const waiting = succeeded(run(dataDir, 'backup', backup));
    await eventually(async () => {
      const { rowCount } = await other.query(
        `SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`,
      );
      expect(rowCount).toBe(1);
    }, 60_000);
    await other.end();
    expect(await waiting).toMatch(/^Backed up in /m);
  } finally {
    await server.stop();
  }
});
