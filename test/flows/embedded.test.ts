/**
 * The front door: `npm start` on an empty directory, a second start, and a start after kill -9. What
 * else may be in the directory is tested in services/embedded-postgres.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { strataDatabase } from '../support/postgres.ts';
import { freePort } from '../support/servers.ts';
import { soakTest } from '../support/soak.ts';
import {
  createTenant,
  memberPassword,
  secretKey,
  signIn,
  startStrata,
  type Client,
  type Running,
} from '../support/strata.ts';

let dataDir: string;
beforeAll(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'strata-embedded-'));
  chmodSync(dataDir, 0o755);
});
afterAll(() => {
  rmSync(dataDir, { recursive: true, force: true });
});

/** A start with a key and an admin of its own, as on an empty machine. */
const start = (extra: Record<string, string> = {}): Promise<Running> =>
  startStrata({ DATA_DIR: dataDir, SECRET_KEY: '', PLATFORM_ADMIN_EMAILS: '', ...extra });
const postgresOf = (): number =>
  Number(readFileSync(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0]);
const alive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** Whether any process has the text in its command line. */
const isNamed = (text: string): boolean => {
  try {
    return execFileSync('pgrep', ['-f', text]).length > 0;
  } catch {
    return false;
  }
};

/** A start in a directory of its own that is not waited for. */
function startUnder(environment: Record<string, string>): ChildProcess {
  return spawn(process.execPath, ['strata.ts'], {
    env: { ...process.env, PORT: '0', ...environment },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

/**
 * Writes ever higher values to one document until the process does not answer any more. Gives the
 * values that were answered.
 */
function writeUntilKilled(
  admin: Client,
  path: string,
): { answered: number[]; ended: Promise<void> } {
  const answered: number[] = [];
  const write = async (): Promise<void> => {
    for (let value = 0; ; value += 1) {
      const answer = await admin.put(path, { custom: { value } }).catch(() => undefined);
      if (answer === undefined) return;
      if (answer.status < 300) answered.push(value);
    }
  };
  return { answered, ended: write() };
}

test('a first start says where it serves and with which admin; a second finds the data; kill -9 loses nothing that was answered', async () => {
  let strata = await start({ PLATFORM_ADMIN_PASSWORD: '' });
  const said = /First platform admin: admin@example.com with password (\S+)/.exec(strata.output());
  const password = said![1]!;
  expect(statSync(join(dataDir, 'secret.key')).mode & 0o077).toBe(0);
  let platform = await signIn(strata.url, 'admin@example.com', password);
  const { id, emails } = await createTenant(strata.url, platform, 'Embedded');
  const pid = postgresOf();
  await strata.stop();
  expect(alive(pid)).toBe(false);

  strata = await start();
  expect(strata.output()).not.toContain('First platform admin');
  platform = await signIn(strata.url, 'admin@example.com', password);
  expect((await platform.get(`/tenants/${id}`)).body.name).toBe('Embedded');

  const path = `/tenants/${id}/config/agents/killed`;
  const admin = await signIn(strata.url, emails.tenant_admin!, memberPassword);
  const { answered, ended } = writeUntilKilled(admin, path);
  while (answered.length < 12) await delay(1);
  process.kill(strata.pid, 'SIGKILL');
  await Promise.all([once(strata.process, 'exit'), ended]);

  strata = await start();
  const again = await signIn(strata.url, emails.tenant_admin!, memberPassword);
  const { body } = await again.get(path);
  expect(body.custom.value).toBeGreaterThanOrEqual(answered.at(-1)!);
  const history = await again.get(
    `/tenants/${id}/config/history?config_type=agent_config&resource_id=killed&limit=200`,
  );
  expect(history.body.items.length).toBeGreaterThanOrEqual(answered.length);
  expect((await again.get('/audit/verify')).body.valid).toBe(true);
  await strata.stop();
});

describe('a start that does not come to its end', () => {
  let home: string;
  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'strata-cut-'));
    chmodSync(home, 0o755);
  });
  afterEach(async () => {
    // initdb outlives its parent for a moment.
    while (isNamed(home)) await delay(50);
    rmSync(home, { recursive: true, force: true });
  });
  /** Or has made it, where a busy machine is late to see that. */
  const isMakingTheDatabase = (): boolean =>
    existsSync(join(home, 'postgres.new', 'base')) || existsSync(join(home, 'postgres'));

  soakTest(
    'stopped by SIGTERM while the database is being made, it leaves no process and ends with 0',
    async () => {
      const first = startUnder({ DATA_DIR: home });
      while (!isMakingTheDatabase()) await delay(2);
      first.kill('SIGTERM');
      const [code, signal] = await once(first, 'exit');
      expect([code, signal]).toEqual([0, null]);
      expect(isNamed(home)).toBe(false);
      expect(existsSync(join(home, 'strata.lock'))).toBe(false);
      const second = await startStrata({ DATA_DIR: home, SECRET_KEY: '' });
      await second.stop();
    },
  );

  test('stopped by SIGTERM while it waits for a bus that is away, it ends with 0', async () => {
    const unusedPort = await freePort();
    const database = await strataDatabase();
    const environment = {
      DATA_DIR: home,
      NATS_URL: `nats://127.0.0.1:${unusedPort}`,
      DATABASE_URL: database.url,
      REDIS_URL: `redis://127.0.0.1:${unusedPort}`,
      SECRET_KEY: secretKey,
    };
    const first = startUnder(environment);
    // Redis is connected to right before the bus.
    await once(first.stderr!, 'data');
    first.kill('SIGTERM');
    const [code, signal] = await once(first, 'exit');
    expect([code, signal]).toEqual([0, null]);
    await database.drop();
  });
});
