/** What people see when they start Strata: the first admin's password, and why a start fails. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { announceFirstAdmin, type FirstAdmin } from '../../services/auth/accounts/first-admin.ts';
import { roles } from '../../services/node-roles.ts';
import { createPasswordHashing } from '../../services/auth/passwords/password-hashing.ts';
import { authSchema } from '../../services/auth/schema.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';
import { holdLock } from '../support/held-lock.ts';
import { createDatabase, strataDatabase, type Database } from '../support/postgres.ts';
import { freePort, guard, inherited, startNats, startRedis } from '../support/servers.ts';
import { inSoak, soakTest } from '../support/soak.ts';
import {
  adminPassword,
  Client,
  secretKey,
  signIn,
  startStrata,
  type Running,
} from '../support/strata.ts';

let home: string;
let taken: Server;
let takenPort: string;
let database: Database;
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'strata-start-'));
  chmodSync(home, 0o755);
  database = await createDatabase();
  taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  takenPort = String((taken.address() as AddressInfo).port);
});
afterAll(async () => {
  taken?.close();
  await database?.drop();
  rmSync(home, { recursive: true, force: true });
});

/** Without a password of the operator's own, so that one is made up. */
const madeUp = { PLATFORM_ADMIN_PASSWORD: '', SECRET_KEY: '' };
const passwordsIn = (output: string): string[] =>
  [...output.matchAll(/First platform admin: admin@example.com with password (\S+)/g)].map(
    ([, password]) => password!,
  );

interface Withheld {
  readonly url: string;
  readonly drop: () => Promise<void>;
}

/** A migrated database whose user may not ask which one it is. */
async function withholdIdentity(): Promise<Withheld> {
  const database = await strataDatabase();
  const role = `role_${randomUUID().replaceAll('-', '')}`;
  const url = new URL(database.url);
  Object.assign(url, { username: role, password: 'x' });
  await database.query(`CREATE ROLE ${role} LOGIN PASSWORD 'x' IN ROLE pg_read_all_data`);
  for (const withheld of ['pg_current_wal_lsn', 'pg_control_checkpoint'])
    await database.query(`REVOKE EXECUTE ON FUNCTION ${withheld}() FROM PUBLIC`);
  const drop = async (): Promise<void> => {
    await database.query(`DROP ROLE ${role}`);
    await database.drop();
  };
  return { url: url.href, drop };
}

describe('/readyz of a first start', () => {
  /** Signs in the moment that it is 200. */
  async function firstSignIn(url: string): Promise<void> {
    const isReady = async (): Promise<boolean> =>
      (await new Client(url).get('/readyz')).status === 200;
    for (const until = Date.now() + 60_000; !(await isReady()); await delay(25))
      expect(Date.now()).toBeLessThan(until);
    await signIn(url, 'admin@example.com', adminPassword);
  }

  test('is 200 once the first administrator can sign in, and names them before', async () => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const fresh = await strataDatabase();
    // Until it is released, nobody is made.
    const lock = await holdLock(fresh, 'LOCK TABLE auth.users IN SHARE MODE');
    const starting = startStrata({ PORT: String(port), DATABASE_URL: fresh.url });
    try {
      const lacking = { status: 'not_ready', checks: { first_admin: false } };
      await eventually(
        async () =>
          expect(await new Client(url).get('/readyz')).toMatchObject({
            status: 503,
            body: lacking,
          }),
        60_000,
      ).finally(() => lock.release());
      await firstSignIn(url);
    } finally {
      await (await starting).stop('SIGKILL');
      await fresh.drop();
    }
  });

  soakTest('of a gateway on a node of its own waits for auth', async () => {
    const [nats, redis] = await Promise.all([startNats(), startRedis()]);
    const fresh = await strataDatabase();
    const shared = { DATABASE_URL: fresh.url, NATS_URL: nats.url, REDIS_URL: redis.url };
    const port = await freePort();
    const others = roles.map(({ name }) => name).filter((name) => !/^(auth|gateway)$/.test(name));
    const starting = [
      startStrata({ ...shared, NODE_ID: 'gateway', PORT: String(port) }, ['gateway']),
      startStrata({ ...shared, NODE_ID: 'others' }, others),
    ];
    try {
      const address = `http://127.0.0.1:${port}`;
      await eventually(async () => {
        const { body } = await new Client(address).get('/readyz');
        expect(body.checks.auth).toBe(false);
      }, 60_000);
      for (const name of ['auth-1', 'auth-2'])
        starting.push(startStrata({ ...shared, NODE_ID: name }, ['auth']));
      await firstSignIn(address);
    } finally {
      const nodes = await Promise.all(starting);
      await Promise.all(nodes.map((node) => node.stop('SIGKILL')));
      await Promise.all([nats.stop('SIGKILL'), redis.stop('SIGKILL'), fresh.drop()]);
    }
  });
});

describe("the first admin's password", () => {
  test('is said once, by processes that start at the same time and not by one on a taken port, and signs in at each', async () => {
    const shared = { ...madeUp, SECRET_KEY: 's'.repeat(32), DATABASE_URL: database.url };
    const failed = await startStrata({ ...shared, PORT: takenPort }).then(
      () => 'served',
      (error: Error) => error.message,
    );
    expect(failed).toMatch(
      /\n127\.0\.0\.1:\d+ is taken by another program, .* or set PORT to another port\.$/,
    );
    expect(failed).not.toContain('First platform admin');
    const started: Running[] = await Promise.all([1, 2].map(() => startStrata(shared)));
    const said = started.flatMap(({ output }) => passwordsIn(output()));
    expect(said).toHaveLength(1);
    for (const { url } of started) await signIn(url, 'admin@example.com', said[0]!);
    await Promise.all(started.map(({ stop }) => stop()));
  });

  describe('where a process ends before it was said', () => {
    const hashing = createPasswordHashing();
    const settings = loadSettings({});

    async function withAccounts(
      work: (
        start: (announce?: () => void) => Promise<FirstAdmin[]>,
        own: Database,
      ) => Promise<void>,
    ): Promise<void> {
      const own = await createDatabase();
      const options = { url: own.url, poolSize: 4, timeoutMs: 10_000, ssl: false };
      await migrate(options, [commitSchema, authSchema]);
      const db = await openDatabase(options, authSchema);
      const start = async (announce = (): void => {}): Promise<FirstAdmin[]> => {
        const announced: FirstAdmin[] = [];
        await announceFirstAdmin(db, settings, hashing, (admin) => {
          announce();
          announced.push(admin);
        });
        return announced;
      };
      try {
        await work(start, own);
      } finally {
        await db.destroy();
        await own.drop();
      }
    }
    const dies = (): never => {
      throw new Error('killed');
    };
    const storedHash = async (own: Database): Promise<string> => {
      const [user] = await own.query<{ password_hash: string }>('SELECT * FROM auth.users');
      return user!.password_hash;
    };

    test('the next start says another that fits, and no later one says any', () =>
      withAccounts(async (start, own) => {
        await expect(start(dies)).rejects.toThrow('killed');
        const [admin] = await start();
        expect(await hashing.verify(await storedHash(own), admin!.password!, '')).toBe(true);
        expect(await start()).toEqual([]);
      }));

    test('a password that somebody has signed in with is not replaced', () =>
      withAccounts(async (start, own) => {
        await expect(start(dies)).rejects.toThrow('killed');
        const hash = await storedHash(own);
        await own.query(
          `INSERT INTO auth.sessions SELECT id, id, NULL, now(), now(), now(), now(), NULL, NULL, NULL FROM auth.users`,
        );
        expect(await start()).toEqual([]);
        expect(await storedHash(own)).toBe(hash);
      }));

    test('a start beside one that says it waits, and says nothing', () =>
      withAccounts(async (start, own) => {
        await own.query(`CREATE FUNCTION auth.slowly() RETURNS trigger LANGUAGE plpgsql
          AS 'BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END'`);
        await own.query(`CREATE TRIGGER slowly BEFORE DELETE ON auth.unannounced_admin
          EXECUTE FUNCTION auth.slowly()`);
        let beside: Promise<FirstAdmin[]> | undefined;
        const [admin] = await start(() => {
          beside = start();
        });
        expect(await beside).toEqual([]);
        expect(await hashing.verify(await storedHash(own), admin!.password!, '')).toBe(true);
      }));
  });
});

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/**
 * Starts `strata.ts` and waits for its end, or until `until` is in its output, which ends it. One
 * that just runs is killed.
 */
async function run(
  words: readonly string[],
  environment: Record<string, string>,
  { until, uid }: { until?: RegExp; uid?: number } = {},
): Promise<Ended> {
  const child = spawn(process.execPath, ['strata.ts', ...words], {
    cwd: join(import.meta.dirname, '../..'),
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...inherited(), PORT: '0', ...environment },
    ...(uid === undefined ? {} : { uid, gid: uid }),
  });
  child.once('exit', guard(child.pid!, 'KILL'));
  const ended = { out: '', err: '' };
  const read = (stream: 'out' | 'err') => (chunk: Buffer) => {
    ended[stream] += chunk.toString();
    if (until?.test(ended[stream])) child.kill('SIGTERM');
  };
  child.stdout.on('data', read('out'));
  child.stderr.on('data', read('err'));
  const tooLong = setTimeout(() => child.kill('SIGKILL'), 120_000);
  const [code] = await once(child, 'close');
  clearTimeout(tooLong);
  return { code, ...ended };
}

describe('a start that fails says in one line what, where, and what to do', () => {
  const unprivileged = 65_534;
  const own = { SECRET_KEY: secretKey };
  const node = { ...own, NATS_URL: 'nats://127.0.0.1:1', REDIS_URL: 'redis://127.0.0.1:1' };
  const canary = 'canary-5d1e';
  const on = (change: (url: URL) => void): string => {
    const url = new URL(database.url);
    url.password = canary;
    change(url);
    return url.href;
  };
  const inHome = (name: string): string => join(home, name);
  const withDatabase = (more: Record<string, string>): Record<string, string> => ({
    ...own,
    DATABASE_URL: database.url,
    ...more,
  });
  const fileWith = (text: string): string => {
    writeFileSync(inHome('file'), text);
    return inHome('file');
  };
  const linkToNothing = (): string => {
    symlinkSync(inHome('nothing'), inHome('link'));
    return inHome('link');
  };

  type Case = [
    name: string,
    words: readonly string[],
    environment: () => Record<string, string>,
    code: number,
    line: RegExp,
  ];
  const cases: Case[] = [
    [
      'a taken port for metrics',
      [],
      () => withDatabase({ METRICS_PORT: takenPort }),
      1,
      /^127\.0\.0\.1:\d+ is taken by another program.* set METRICS_PORT to another port\.$/,
    ],
    [
      'DATA_DIR is a file',
      [],
      () => ({ DATA_DIR: fileWith('') }),
      1,
      /^DATA_DIR is no directory but a file: \/.*\/file\. .* set DATA_DIR to another directory/,
    ],
    [
      'an unknown piece',
      ['tenant-confg'],
      () => node,
      2,
      /^There is no role tenant-confg\. Did you mean tenant-config\? There are .*gateway\.$/,
    ],
    [
      'a node without NATS_URL',
      ['gateway'],
      () => own,
      1,
      /NATS_URL is required to run gateway alone; npm start /,
    ],
    [
      'a node before the migrations',
      ['audit'],
      () => ({ ...node, DATABASE_URL: unmigrated.url }),
      1,
      /^PostgreSQL at [^ ]+ lacks \d+ migrations of the schema \w+ .* Run "npm run migrate" /,
    ],
    [
      'a database that is away',
      [],
      () => withDatabase({ DATABASE_URL: `postgres://strata:${canary}@localhost:1/strata` }),
      1,
      /^PostgreSQL at localhost:1\/strata cannot be used: .*ECONNREFUSED.* Start it, or correct DATABASE_URL/,
    ],
  ];
  /** Each starts a process of its own: the soak alone has what is rare. */
  const rare: Case[] = [
    [
      'a HOST that is no address of this machine',
      [],
      () => withDatabase({ HOST: '192.0.2.1' }),
      1,
      /^HOST is 192\.0\.2\.1, which is no address of this machine\. Set HOST to /,
    ],
    [
      'DATA_DIR below a link to nothing',
      [],
      () => ({ DATA_DIR: join(linkToNothing(), 'data') }),
      1,
      /^DATA_DIR lies below a link to nothing: \/.*\/data\. .* set DATA_DIR to another directory/,
    ],
    ['an unknown option', ['--migrat'], () => node, 2, /^There is no option --migrat\. --help /],
    [
      'a database that does not say which one it is',
      ['audit'],
      () => ({ ...node, DATABASE_URL: withheld.url }),
      1,
      /^PostgreSQL at [^ ]+ refuses: permission denied for function pg_control_\w+\. Grant that to the user role_\w+\.$/,
    ],
    [
      'a database that does not exist',
      ['--migrate'],
      () => withDatabase({ DATABASE_URL: on((url) => (url.pathname = '/none')) }),
      1,
      /^PostgreSQL at [^ ]+\/none (cannot be used: .* Make the database|refuses the user)/,
    ],
    [
      'a user that the database refuses',
      ['audit'],
      () => ({ ...node, DATABASE_URL: on((url) => (url.username = 'stranger')) }),
      1,
      /^PostgreSQL at [^ ]+ refuses the user stranger: .* Correct DATABASE_URL/,
    ],
  ];
  let unmigrated: Database;
  let withheld: Withheld;
  beforeAll(async () => {
    unmigrated = await createDatabase();
    withheld = await withholdIdentity();
  });
  afterAll(async () => {
    await unmigrated?.drop();
    await withheld?.drop();
  });

  test.each([...cases, ...(inSoak ? rare : [])])(
    '%s',
    async (_name, words, environment, code, line) => {
      const given = { DATA_DIR: inHome('data'), LOG_LEVEL: 'warn', ...environment() };
      const ended = await run(words, given);
      expect(ended).toEqual({ code, out: '', err: expect.stringMatching(/^[^\n]+\n$/) });
      expect(ended.err.trimEnd()).toMatch(line);
      expect(ended.err).not.toContain(canary);
    },
  );

  const asUnprivileged = process.getuid?.() === 0 ? { uid: unprivileged } : {};
  test('a DATA_DIR that this user may not write', async () => {
    const closed = inHome('closed');
    mkdirSync(closed, { mode: 0o555 });
    const { code, err } = await run([], { DATA_DIR: closed }, asUnprivileged);
    expect(code).toBe(1);
    expect(err).toBe(
      `This user may not use ${closed} (EACCES). Run Strata as its owner, set DATA_DIR to another directory, or give DATABASE_URL.\n`,
    );
  });

  test('names in ENV_FILE that are no settings are said before what fails', async () => {
    const file = fileWith('NATS_ULR=nats://bus\nPORT=x\n');
    const { code, err } = await run([], { ENV_FILE: file, HOSTT: 'x' });
    expect(code).toBe(1);
    expect(err.trimEnd().split('\n')).toEqual([
      'ENV_FILE: NATS_ULR is no setting and has no effect. Did you mean NATS_URL?',
      'The settings are not valid: PORT must be a whole number',
    ]);
  });

  test('a node that waits for NATS says so in its log', async () => {
    const { out, err } = await run(['config-resolver'], node, { until: /"msg"/ });
    expect(JSON.parse(out)).toMatchObject({
      level: 'warn',
      msg: expect.stringMatching(
        /^NATS at 127\.0\.0\.1:1 \(NATS_URL\) cannot be used: .* This node waits for it\.$/,
      ),
    });
    expect(err).toBe('');
  });

  soakTest(
    'a node that waits for others says once for which, and waits again for the next',
    async () => {
      const [nats, migrated] = await Promise.all([startNats(), strataDatabase()]);
      const statusPort = await freePort();
      const settings = { ...own, NATS_URL: nats.url, LOG_LEVEL: 'warn' };
      let waiting: Running | undefined;
      let feed: Running | undefined;
      const waits = expect.stringMatching(
        /^No node with a database, such as auth or tenant-config, answers on NATS\. This node waits for one, .* NATS_URL, NATS_NAMESPACE and SECRET_KEY /,
      );
      const messages = (): string[] =>
        waiting!
          .output()
          .split('\n')
          .filter((line) => line.startsWith('{'))
          .map((line) => (JSON.parse(line) as { msg: string }).msg);
      try {
        const alone = { ...settings, NODE_ID: 'waiting', METRICS_PORT: String(statusPort) };
        waiting = await startStrata(alone, ['config-resolver']);
        await eventually(async () => expect(messages()).toEqual([waits]));
        // Polls would have been refused meanwhile, each with a line of its own.
        await delay(1500);
        expect(messages()).toEqual([waits]);
        const node = { ...settings, NODE_ID: 'feed', DATABASE_URL: migrated.url };
        feed = await startStrata(node, ['global-config']);
        const status = new Client(`http://127.0.0.1:${statusPort}`);
        await eventually(async () =>
          expect((await status.get('/readyz')).body.checks).toMatchObject({ feed: true }),
        );
        await feed.stop();
        await eventually(async () => expect(messages()).toEqual([waits, waits]));
        await waiting.stop();
        expect(messages()).toEqual([waits, waits]);
      } finally {
        await Promise.all([waiting?.stop('SIGKILL'), feed?.stop('SIGKILL')]);
        await Promise.all([nats.stop(), migrated.drop()]);
      }
    },
  );

  test('the stack is for LOG_LEVEL=debug', async () => {
    const { err } = await run(['nothing'], { LOG_LEVEL: 'debug' });
    expect(err).toMatch(/There is no role nothing.*\n +at /);
  });

  test('--help says how Strata is started', async () => {
    const { code, out, err } = await run(['--help'], {});
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(/^Usage:\n.*npm start.*\n.*start:node -- <role>.*notifier.*\n.*migrate/);
  });
});
