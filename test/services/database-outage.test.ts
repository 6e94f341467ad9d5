/** A connection that is lost is an outage, wherever in a transaction it is lost. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { pino } from 'pino';
import type { DataSource, EntityManager } from 'typeorm';
import { setTimeout as delay } from 'node:timers/promises';
import { translate } from '../../shared/contract-runtime/checks.ts';
import { Connections } from '../../shared/database/connections.ts';
import { isDatabaseOutage } from '../../shared/database/failures.ts';
import { migrate, migration, openDatabase } from '../../shared/database/open.ts';
import { pipelinedTransaction } from '../../shared/database/pipelined-transaction.ts';
import { eventually } from '../support/cluster.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startProxy } from '../support/proxy.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenantWith,
  memberPassword,
  signIn,
  startStrata,
  type Answer,
} from '../support/strata.ts';

const log = pino({ level: 'silent' });
let database: Database;
let db: DataSource;
beforeAll(async () => {
  database = await strataDatabase();
  db = await openDatabase(
    { url: database.url, poolSize: 2, timeoutMs: 5000, ssl: false },
    { schema: 'public', entities: [], migrations: [] },
  );
});
afterAll(async () => {
  await db?.destroy();
  await database?.drop();
});

/** Ends the transaction's connection from outside. */
async function loseConnection(manager: EntityManager): Promise<void> {
  const [{ pid }] = await manager.query<[{ pid: number }]>('SELECT pg_backend_pid() AS pid');
  await database.query('SELECT pg_terminate_backend($1)', [pid]);
}
type Work = (manager: EntityManager) => Promise<unknown>;

const failureOf = (work: Work): Promise<unknown> =>
  db.transaction(work).then(
    () => 'no error',
    (error: unknown) => error,
  );

test.each<[string, Work]>([
  [
    'before a query',
    async (manager) => {
      await loseConnection(manager);
      await delay(100);
      await manager.query('SELECT 1');
    },
  ],
  [
    'at a query',
    async (manager) => {
      await loseConnection(manager);
      await manager.query('SELECT 1');
    },
  ],
  [
    'during a query',
    async (manager) => {
      const asked = manager.query('SELECT pg_sleep(60)');
      // Awaited below.
      asked.catch(() => {});
      await eventually(async () =>
        expect(
          await database.query(
            `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND state = 'active' AND query LIKE 'SELECT pg_sleep%'`,
          ),
        ).toHaveLength(1),
      );
      await asked;
    },
  ],
  [
    'while this process stood still for too long',
    async (manager) => {
      await manager.query('SET LOCAL idle_in_transaction_session_timeout = 50');
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
      await manager.query('SELECT 1');
    },
  ],
  [
    'before the commit',
    async (manager) => {
      await loseConnection(manager);
      await delay(100);
    },
  ],
])('lost %s', async (_when, work) => {
  const error = await failureOf(work);
  expect([isDatabaseOutage(error), error]).toEqual([true, expect.any(Error)]);
  expect(await db.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
});

test.each(['db.transaction', 'pipelinedTransaction'])(
  'what is lost while it is committed may have been done, by %s',
  async (name) => {
    const endAtCommit: Work = async (manager) => {
      await manager.query('CREATE TEMPORARY TABLE ended ()');
      await manager.query(
        `CREATE FUNCTION pg_temp.end_session() RETURNS trigger LANGUAGE plpgsql
         AS 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'`,
      );
      await manager.query(
        `CREATE CONSTRAINT TRIGGER ends AFTER INSERT ON ended DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION pg_temp.end_session()`,
      );
      await manager.query('INSERT INTO ended DEFAULT VALUES');
    };
    const saidOf = async (work: Work): Promise<unknown> => {
      const done =
        name === 'db.transaction' ? db.transaction(work) : pipelinedTransaction(db, work);
      const failed = await done.catch((error: unknown) => translate(error, log));
      return (failed as Error).message;
    };
    expect(await saidOf(endAtCommit)).toMatch(/may have been carried out/);
    expect(
      await saidOf((manager) => manager.query('SELECT pg_terminate_backend(pg_backend_pid())')),
    ).toBe('The database does not answer. Try again.');
  },
);

test('whom a lost commit has shut out is out once its repetition is answered', async () => {
  const own = await strataDatabase();
  const url = new URL(own.url);
  const proxy = await startProxy(Number(url.port));
  url.port = String(proxy.port);
  // Longer than this takes: until then no poll brings what was committed.
  const strata = await startStrata({
    DATABASE_URL: url.href,
    COHERENCE_FENCE_MS: '30000',
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
    WEBHOOK_ALLOW_HTTP: 'true',
  });
  try {
    const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
    const { id, admin } = await createTenantWith(strata.url, platform, 'Lost commits');
    let members = 0;
    const member = () =>
      addMember(admin, id, { email: `m${(members += 1)}@lost.example`, roles: ['operator'] });
    const risk = `/tenants/${id}/config/risk`;
    const seen = async (client: Client, path = '/auth/me'): Promise<string> => {
      const { status, body } = await client.get(path);
      return status === 200 ? '200' : body.detail.code;
    };
    /** What is asked of the database again comes after the commit that was lost. */
    const lose = async (of: string, write: () => Promise<{ status: number }>): Promise<void> => {
      proxy.loseCommit(of);
      expect((await write()).status).toBe(503);
    };

    const disabled = await member();
    expect(await seen(disabled.client)).toBe('200');
    const account = `/auth/users/${disabled.user_id}`;
    const disable = () => platform.patch(account, { status: 'disabled' });
    await lose('auth.sessions', disable);
    expect((await disable()).status).toBe(200);
    expect(await seen(disabled.client)).toBe('auth_session_revoked');

    const deleted = await member();
    const key = await deleted.client.post('/auth/api-key', { name: 'k', scopes: ['config:read'] });
    const withKey = new Client(strata.url, key.body.api_key);
    expect([await seen(deleted.client), await seen(withKey, risk)]).toEqual(['200', '200']);
    const erase = () => platform.delete(`/auth/users/${deleted.user_id}`);
    await lose('auth.api_keys', erase);
    expect(await seen(deleted.client)).toBe('not_found');
    expect((await erase()).status).toBe(204);
    expect([await seen(deleted.client), await seen(withKey, risk)]).toEqual([
      'auth_session_revoked',
      'auth_api_key_invalid',
    ]);

    const { client: leaving } = await member();
    const elsewhere = await signIn(strata.url, `m${members}@lost.example`, memberPassword);
    expect([await seen(leaving), await seen(elsewhere)]).toEqual(['200', '200']);
    const leave = () => leaving.post('/auth/logout', { all: true });
    await lose('auth.sessions', leave);
    expect((await leave()).status).toBe(204);
    // In this order: what is read of one that ended drops everything older.
    const ended = [await seen(elsewhere), await seen(leaving)];
    expect(ended).toEqual(['auth_session_revoked', 'auth_session_revoked']);

    const reason = 'Ticket 4711: a value is not what they expect';
    const visit = await platform.post(`/tenants/${id}/visits`, { reason });
    const moved = await platform.post('/auth/switch-tenant', { tenant_id: id });
    const visitor = new Client(strata.url, moved.body.access_token);
    expect(await seen(visitor, risk)).toBe('200');
    const end = () => admin.post(`/tenants/${id}/visits/${visit.body.id}/end`);
    await lose('tenant_config.visits', end);
    expect((await end()).status).toBe(200);
    expect(await seen(visitor, risk)).toBe('tenant_mismatch');

    // Where the repetition finds nothing to remove any more.
    const removed = await member();
    const another = await signIn(strata.url, `m${members}@lost.example`, memberPassword);
    const { body: me } = await another.get('/auth/me');
    const ownKey = await removed.client.post('/auth/api-key', {
      name: 'k',
      scopes: ['config:read'],
    });
    const accounts = `/tenants/${id}/service-accounts`;
    const machine = await admin.post(accounts, { name: 'ci', roles: ['operator'] });
    const keys = `${accounts}/${machine.body.id}/api-keys`;
    const ofMachine = await admin.post(keys, { name: 'ci' });
    const withKeyOf = ({ body }: Answer): Client => new Client(strata.url, body.api_key);
    const removals = [
      [removed.client, `/auth/api-keys/${ownKey.body.id}`, '"api_keys"', withKeyOf(ownKey)],
      [admin, `${keys}/${ofMachine.body.id}`, '"api_keys"', withKeyOf(ofMachine)],
      [removed.client, `/auth/sessions/${me.session_id}`, 'auth.sessions', another],
      [admin, `/tenants/${id}/users/${removed.user_id}`, '"members"', removed.client],
    ] as const;
    const out: string[] = [];
    for (const [by, path, of, whose] of removals) {
      expect([path, await seen(whose, risk)]).toEqual([path, '200']);
      await lose(of, () => by.delete(path));
      expect([path, (await by.delete(path)).status]).toEqual([path, 404]);
      out.push(await seen(whose, risk));
    }
    const invalid = 'auth_api_key_invalid';
    expect(out).toEqual([invalid, invalid, 'auth_session_revoked', 'tenant_mismatch']);

    // Each end of credentials is an event of its own, also where an earlier one has ended them.
    const recovered = await member();
    expect(await seen(recovered.client)).toBe('200');
    const recover = () => platform.post(`/auth/users/${recovered.user_id}/recover`);
    await lose('SET "password_hash"', recover);
    expect((await recover()).status).toBe(204);
    expect(await seen(recovered.client)).toBe('auth_session_revoked');

    const changing = await member();
    const address = `m${members}@lost.example`;
    const found = await signIn(strata.url, address, memberPassword);
    const wanted = 'a-longer-password-4711';
    const change = (to = wanted) =>
      changing.client.post('/auth/password/change', {
        current_password: memberPassword,
        new_password: to,
      });
    expect([await seen(changing.client), await seen(found)]).toEqual(['200', '200']);
    await lose('"password_hash"', change);
    expect((await change('another-password-4711')).body.detail.code).toBe(
      'auth_invalid_credentials',
    );
    expect((await change()).status).toBe(204);
    expect([await seen(changing.client), await seen(found)]).toEqual([
      '200',
      'auth_session_revoked',
    ]);
    await signIn(strata.url, address, wanted);

    const provider = {
      name: 'Company',
      issuer: 'http://127.0.0.1:9',
      client_id: 'strata',
      client_secret: 'a secret of the provider',
      redirect_uris: ['https://app.example/callback'],
    };
    const { body: made } = await platform.post('/auth/sso/providers', provider);
    const providerPath = `/auth/sso/providers/${made.id}`;
    for (const [end, status] of [
      [() => platform.put(providerPath, { ...provider, enabled: false }), 200],
      [() => platform.delete(providerPath), 404],
    ] as const) {
      const { client: through, user_id: whose } = await member();
      const byProvider = 'UPDATE auth.sessions SET provider_id = $1 WHERE user_id = $2';
      await own.query(byProvider, [made.id, whose]);
      expect(await seen(through)).toBe('200');
      await lose('"sso_providers"', end);
      expect((await end()).status).toBe(status);
      expect(await seen(through)).toBe('auth_session_revoked');
    }

    // A directory takes 404 for done.
    const provisioner = await admin.post(accounts, { name: 'directory', roles: ['tenant_admin'] });
    const scope = { name: 'directory', scopes: ['scim:provision'] };
    const ofDirectory = await admin.post(`${accounts}/${provisioner.body.id}/api-keys`, scope);
    const directory = withKeyOf(ofDirectory);
    const scim = `/tenants/${id}/scim/v2`;
    const provisioned = await addMember(admin, id, { email: 's@lost.example', roles: ['viewer'] });
    const scimUser = await directory.post(`${scim}/Users`, { userName: 's@lost.example' });
    const people = [{ value: provisioned.user_id }];
    const { body: group } = await directory.post(`${scim}/Groups`, {
      displayName: 'g',
      members: people,
    });
    await admin.put(`/tenants/${id}/directory-groups/${group.id}`, {
      roles: ['operator'],
      groups: [],
    });
    const decisions = `/tenants/${id}/decisions`;
    expect([scimUser.status, await seen(provisioned.client, decisions)]).toEqual([201, '200']);
    const gone: string[] = [];
    for (const [path, of] of [
      [`Groups/${group.id}`, '"directory_groups"'],
      [`Users/${provisioned.user_id}`, '"scim_users"'],
    ] as const) {
      const remove = () => directory.delete(`${scim}/${path}`);
      await lose(of, remove);
      expect([path, (await remove()).status]).toEqual([path, 404]);
      gone.push(await seen(provisioned.client, decisions));
    }
    expect(gone).toEqual(['insufficient_role', 'auth_session_revoked']);
  } finally {
    await strata.stop('SIGKILL');
    await proxy.stop();
    await own.drop();
  }
});

test('a connection that gave no answer in time is not handed to the next', async () => {
  const options = { url: database.url, poolSize: 1, timeoutMs: 2000, ssl: false };
  const source = await openDatabase(options, { schema: 'public', entities: [], migrations: [] });
  const [{ pid }] = await source.query<[{ pid: number }]>('SELECT pg_backend_pid() AS pid');
  process.kill(pid, 'SIGSTOP');
  try {
    const next = source.query('SELECT 1').catch(async (error: Error) => {
      expect(error.message).toMatch(/timeout/i);
      return source.query('SELECT 2 AS two');
    });
    expect(await next).toEqual([{ two: 2 }]);
  } finally {
    process.kill(pid, 'SIGCONT');
    await source.destroy();
  }
});

test('a connection to a server that takes no writes is not handed to the next', async () => {
  const options = { url: database.url, poolSize: 1, timeoutMs: 5000, ssl: false };
  const source = await openDatabase(options, { schema: 'public', entities: [], migrations: [] });
  try {
    await source.query('SET default_transaction_read_only = on');
    const written = (): Promise<unknown> => source.query('CREATE TABLE IF NOT EXISTS written ()');
    await expect(written()).rejects.toMatchObject({ driverError: { code: '25006' } });
    await written();
  } finally {
    await source.destroy();
  }
});

/**
 * A server that ends each connection in the moment in which it is made, as PostgreSQL does when it
 * shuts down.
 */
async function startEndingServer(): Promise<Server> {
  const message = (type: string, ...body: string[]): Buffer => {
    const bytes = Buffer.from(body.join(''), 'latin1');
    const length = Buffer.alloc(4);
    length.writeInt32BE(bytes.length + 4);
    return Buffer.concat([Buffer.from(type), length, bytes]);
  };
  const greeting = Buffer.concat([
    message('R', '\0\0\0\0'),
    message('Z', 'I'),
    message('E', 'SFATAL\0C57P01\0Mterminating connection\0\0'),
  ]);
  const server = createServer((socket) => {
    socket.once('data', () => socket.end(greeting));
    socket.on('error', () => {});
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return server;
}

test('lost in the moment in which it is made, while no one listens to it yet', async () => {
  const server = await startEndingServer();
  const { port } = server.address() as AddressInfo;
  const url = `postgres://strata@127.0.0.1:${port}/strata`;
  const options = { url, poolSize: 2, timeoutMs: 5000, ssl: false };
  try {
    const opening = openDatabase(options, { schema: 'public', entities: [], migrations: [] });
    const error: unknown = await opening.catch((reason: unknown) => reason);
    expect([isDatabaseOutage(error), error]).toEqual([true, expect.any(Error)]);
  } finally {
    server.close();
  }
});

test('lost during migrations, of which it is the lock, it is their error', async () => {
  const schemas = [
    {
      schema: 'long',
      entities: [],
      migrations: [migration('Long1700000000000', 'SELECT pg_sleep(1)')],
    },
    { schema: 'next', entities: [], migrations: [migration('Next1700000000000', 'SELECT 1')] },
  ];
  const migrating = migrate(
    { url: database.url, poolSize: 2, timeoutMs: 5000, ssl: false },
    schemas,
  );
  const error = migrating.catch((reason: unknown) => reason);
  await eventually(async () => {
    const ended = await database.query(
      // Of this database alone: the server has those of other tests, too.
      `WITH own AS (SELECT * FROM pg_stat_activity WHERE datname = current_database())
       SELECT pg_terminate_backend(pid) FROM own
       WHERE pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')
         AND EXISTS (SELECT FROM own WHERE query = 'SELECT pg_sleep(1)' AND state = 'active')`,
    );
    expect(ended).toHaveLength(1);
  });
  expect(isDatabaseOutage(await error)).toBe(true);
});

test('that none of several servers gives is an outage, whatever each of them said', async () => {
  // As a server that is killed while it is asked: pg has no code for that.
  const hangingUp = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
  await once(hangingUp, 'listening');
  const { port } = hangingUp.address() as AddressInfo;
  for (const hosts of [`127.0.0.1:${port},127.0.0.1:${port}`, `127.0.0.1:${port},127.0.0.1:1`]) {
    const url = `postgres://${hosts}/strata?target_session_attrs=read-write`;
    const options = { url, poolSize: 1, timeoutMs: 5000, ssl: false };
    const error = await openDatabase(options, {
      schema: 'public',
      entities: [],
      migrations: [],
    }).catch((reason: unknown) => reason);
    expect([hosts, (error as Error).message, isDatabaseOutage(error)]).toEqual([
      hosts,
      expect.stringContaining('Connection terminated'),
      true,
    ]);
  }
  hangingUp.close();
});

test('a start without any of its hosts says so of each, and shows no password', async () => {
  const start = startStrata({
    DATABASE_URL: 'postgres://strata:canary@127.0.0.1:1,[::1]:2/strata',
  });
  await expect(start).rejects.toThrow(
    /:\nPostgreSQL at 127\.0\.0\.1:1,\[::1\]:2\/strata cannot be used: 127\.0\.0\.1:1: connect ECONNREFUSED 127\.0\.0\.1:1, \[::1\]:2: connect E\w+ ::1:2[^.]*\. Start it, or correct DATABASE_URL .*$/,
  );
});

test('connections to another server than polls are answered by are ended, idle or not, and no new one is handed out', async () => {
  const connections = new Connections();
  const options = { url: database.url, timeoutMs: 5000, ssl: false, connections };
  const nothing = { schema: 'public', entities: [], migrations: [] };
  const owner = await openDatabase({ ...options, poolSize: 2 }, nothing);
  const poller = await openDatabase({ ...options, poolSize: 1, leads: true }, nothing);
  const backends = (): Promise<unknown> => owner.query('SELECT pg_backend_pid()');
  const [{ cluster }] = await poller.query<[{ cluster: string }]>(
    'SELECT strata.cluster() AS cluster',
  );
  connections.follow(cluster);
  await backends();
  const running = owner.query('SELECT pg_sleep(60)').catch((error: unknown) => error);
  await eventually(async () =>
    expect(
      await database.query("SELECT FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'"),
    ).toHaveLength(1),
  );
  await backends();
  connections.follow('the one that took over');
  expect(isDatabaseOutage(await running)).toBe(true);
  const refused = await backends().catch((error: unknown) => error);
  expect(isDatabaseOutage(refused)).toBe(true);
  await poller.query('SELECT 1');
  connections.follow(cluster);
  await backends();
  await owner.destroy();
  await poller.destroy();
});
