/** Writers that race for one resource, and events that wait while the audit service is away. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { holdLock, queuedBehindRevision } from '../support/held-lock.ts';
import { eventually } from '../support/cluster.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startNats, startRedis, type Process } from '../support/servers.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  memberPassword,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
const servers: Process[] = [];
let strata: Running;
let platform: Client;
let tenant: TenantFixture;
const writers = 32;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Racing');
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  for (const server of servers) await server.stop();
  await database?.drop();
});

const revisionIn = ({ headers }: Answer): number => Number(headers.get('x-config-revision'));

async function wholeHistory(): Promise<
  { revision: number; changes: { path: string; after: unknown }[] }[]
> {
  const items = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const { body } = await tenant.admin.get(
      `/tenants/${tenant.id}/config/history?limit=200${cursor ? `&cursor=${cursor}` : ''}`,
    );
    items.push(...body.items);
    cursor = body.next_cursor;
  }
  return items.toReversed();
}

test('with If-Match no update is lost', async () => {
  const path = `/tenants/${tenant.id}/projects/counter/config`;
  await tenant.admin.put(path, { project_config: { count: 0 } });
  await Promise.all(
    Array.from({ length: writers }, async () => {
      for (;;) {
        const read = await tenant.admin.get(path);
        const written = await tenant.admin.put(
          path,
          { project_config: { count: read.body.project_config.count + 1 } },
          { 'if-match': read.headers.get('etag')! },
        );
        if (written.status === 200) return;
        expect(written.status).toBe(412);
      }
    }),
  );
  expect((await tenant.admin.get(path)).body.project_config.count).toBe(writers);
});

test('of 32 writers with the same If-Match one is answered 200, and the others what it has made', async () => {
  const path = `/tenants/${tenant.id}/config/agents/queued`;
  const created = await tenant.admin.put(path, { default_cpu: 'first' });
  const ifMatch = { 'if-match': created.headers.get('etag')! };
  const racing = Array.from(
    { length: writers },
    (_each, index) => () => tenant.admin.put(path, { default_cpu: `cpu-${index}` }, ifMatch),
  );
  const answers = await queuedBehindRevision(database, `tenant:${tenant.id}`, racing);
  const { 200: won = [], 412: lost = [] } = Object.groupBy(answers, ({ status }) => status);
  expect([won.length, lost.length]).toEqual([1, writers - 1]);
  const etag = won[0]!.headers.get('etag');
  expect(lost.map(({ headers }) => headers.get('etag'))).toEqual(lost.map(() => etag));
  const read = await tenant.admin.get(path);
  expect([read.body, read.headers.get('etag')]).toEqual([won[0]!.body, etag]);
});

test('without it the history shows every write, without gaps, and the chain verifies', async () => {
  const path = `/tenants/${tenant.id}/config/agents/raced`;
  const answers = await Promise.all(
    Array.from({ length: writers }, (_each, index) =>
      tenant.admin.put(path, { default_cpu: `cpu-${index}` }),
    ),
  );
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(writers - 1);

  const history = await wholeHistory();
  expect(history.map(({ revision }) => revision)).toEqual(
    Array.from({ length: history.length }, (_each, index) => index + 1),
  );
  const byRevision = new Map(history.map((entry) => [entry.revision, entry]));
  for (const [index, answer] of answers.entries()) {
    const entry = byRevision.get(revisionIn(answer))!;
    expect(entry.changes).toContainEqual(
      expect.objectContaining({ path: '/default_cpu', after: `cpu-${index}` }),
    );
  }
  const last = answers.reduce((a, b) => (revisionIn(a) > revisionIn(b) ? a : b));
  expect((await tenant.admin.get(path)).body).toEqual(last.body);
  expect((await tenant.admin.get('/audit/verify')).body.valid).toBe(true);
});

test('a write that waits is refused where its writer has lost the right to it meanwhile', async () => {
  const { id, admin } = await createTenant(strata.url, platform, 'Leaving');
  const at = `/tenants/${id}`;
  const leaving = await addMember(admin, id, { email: 'a@left.example', roles: ['tenant_admin'] });
  const demoted = await addMember(admin, id, {
    email: 'b@left.example',
    roles: ['tenant_admin', 'viewer'],
  });
  const accounts = `${at}/service-accounts`;
  const { body: account } = await admin.post(accounts, { name: 'bot', roles: ['tenant_admin'] });
  const { body: key } = await admin.post(`${accounts}/${account.id}/api-keys`, {
    name: 'k',
    scopes: ['config:write'],
  });
  const bot = new Client(strata.url, key.api_key);
  const agent = `${at}/config/agents/scaler`;
  const notifications = `${at}/config/notifications`;
  const project = `${at}/projects/shop/config`;
  const lost = [
    {
      write: () => leaving.client.put(agent, { default_region: 'lost' }),
      withdraw: () => admin.delete(`${at}/users/${leaving.user_id}`),
    },
    {
      write: () =>
        demoted.client.patch(notifications, {
          approver_groups: { risk_levels: { low: ['lost'] } },
        }),
      withdraw: () => admin.patch(`${at}/users/${demoted.user_id}`, { roles: ['viewer'] }),
    },
    {
      write: () => bot.put(project, { project_config: { lost: 1 } }),
      withdraw: () => admin.patch(`${accounts}/${account.id}`, { roles: ['viewer'] }),
    },
    {
      write: () => admin.put(agent, { default_region: 'lost' }),
      withdraw: () => platform.patch(at, { status: 'disabled' }),
    },
  ];
  const whileWaiting = async (write: () => Promise<Answer>, act: () => Promise<Answer>) => {
    const lock = await holdLock(
      database,
      'SELECT revision FROM strata.revisions WHERE scope = $1 FOR UPDATE',
      [`tenant:${id}`],
    );
    const written = write();
    try {
      await lock.untilWaiting(1);
      const { status, text } = await act();
      if (status >= 300) throw new Error(text);
    } finally {
      await lock.release();
    }
    const { status, body } = await written;
    return [status, body.detail?.code];
  };
  // What was given beside the right that a write needs takes nothing from it.
  await admin.patch(`${at}/users/${demoted.user_id}`, { roles: ['tenant_admin', 'viewer'] });
  const kept = await whileWaiting(
    () => demoted.client.put(agent, { default_region: 'kept' }),
    () => admin.patch(`${at}/users/${demoted.user_id}`, { roles: ['tenant_admin'] }),
  );
  expect(kept).toEqual([201, undefined]);
  for (const { write, withdraw } of lost)
    expect(await whileWaiting(write, withdraw)).toEqual([403, 'insufficient_role']);
  await platform.patch(at, { status: 'active' });
  const { body } = await admin.get(`${at}/config/history?limit=200`);
  expect(JSON.stringify(body)).not.toContain('lost');
});

test('sign-outs that wait for each other are committed together, each with its event', async () => {
  // On a busy machine the others may come only when the first has been committed.
  await eventually(async () => {
    const sessions = await Promise.all(
      Array.from({ length: 6 }, () =>
        signIn(tenant.admin.url, tenant.emails.operator!, memberPassword),
      ),
    );
    const writers = sessions.map((client) => () => client.post('/auth/logout'));
    const answers = await queuedBehindRevision(database, 'auth', writers);
    expect(answers.map(({ status }) => status)).toEqual(Array(6).fill(204));
    const after = await Promise.all(sessions.map((client) => client.get('/auth/me')));
    expect(after.map(({ status }) => status)).toEqual(Array(6).fill(401));
    const [commits] = await database.query<{ most: number }>(
      `SELECT max(changes)::int AS most FROM (
         SELECT count(*) AS changes FROM strata.changes WHERE scope = 'auth' GROUP BY id) AS counted`,
    );
    expect(commits!.most).toBeGreaterThan(1);
  });
});

test('a write does not need the audit service, and no event is lost while it is away', async () => {
  await strata.stop();
  const [nats, redis] = await Promise.all([startNats(), startRedis()]);
  servers.push(nats, redis);
  const environment = { DATABASE_URL: database.url, NATS_URL: nats.url, REDIS_URL: redis.url };
  const roles = ['gateway', 'auth', 'tenant-config', 'global-config', 'config-resolver'];
  strata = await startStrata(environment, roles);
  const admin = await signIn(strata.url, tenant.emails.tenant_admin!, memberPassword);
  const written = await Promise.all(
    Array.from({ length: 10 }, (_each, index) =>
      admin.put(`/tenants/${tenant.id}/config/agents/unaudited-${index}`, {}),
    ),
  );
  expect(written.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 201));
  const away = await admin.get('/audit/events');
  expect([away.status, away.body.detail.code]).toEqual([503, 'service_unavailable']);
  await strata.stop();

  strata = await startStrata({ DATABASE_URL: database.url });
  const again = await signIn(strata.url, tenant.emails.tenant_admin!, memberPassword);
  const wanted = new Set(written.map(({ headers }) => headers.get('x-request-id')));
  await eventually(async () => {
    const { body } = await again.get('/audit/events?action=config.agent.created&limit=200');
    const recorded = body.items.filter((event: { request_id: string }) =>
      wanted.has(event.request_id),
    );
    expect(recorded).toHaveLength(wanted.size);
  });
  expect((await again.get('/audit/verify')).body.valid).toBe(true);
});
