/** Whose audit an event of sign-in is in, and what everybody sees of their own account. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { eventually } from '../support/cluster.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  Client,
  createTenant,
  joinTenant,
  memberPassword,
  signIn,
  startStrata,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

const newPassword = 'grapefruit lamp seventy';
let database: Database;
let strata: Running;
let platform: Client;
let first: TenantFixture;
let second: TenantFixture;
let person: { readonly id: string; readonly email: string };
let client: Client;
/** What the person did, in this order. */
const done = [
  'auth.login_succeeded',
  'auth.tenant_switched',
  'auth.api_key_created',
  'auth.api_key_rotated',
  'auth.api_key_revoked',
  'auth.session_ended',
  'auth.password_changed',
  'auth.login_failed',
  'auth.tenant_switched',
];

interface Event {
  readonly id: string;
  readonly action: string;
  readonly tenant_id: string | null;
  readonly target?: string | null;
  readonly occurred_at: string;
}
async function itemsOf(reader: Client, path: string): Promise<Event[]> {
  const { status, body, text } = await reader.get(path);
  if (status !== 200) throw new Error(text);
  return body.items;
}

/** A member of both tenants goes through everything that is audited of an account. */
beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  first = await createTenant(strata.url, platform, 'Whose first');
  second = await createTenant(strata.url, platform, 'Whose second');
  const { user } = (await first.operator.get('/auth/me')).body;
  person = user;
  const membership = { email: user.email, roles: ['viewer'] };
  await joinTenant(second.admin, second.id, first.operator, membership);

  const anyone = new Client(strata.url);
  const other = await signIn(strata.url, user.email, memberPassword, first.id);
  const { body } = await anyone.post('/auth/login', {
    email: user.email,
    password: memberPassword,
    tenant_id: first.id,
  });
  client = new Client(strata.url, body.access_token);
  await client.post('/auth/switch-tenant', { tenant_id: second.id });
  const key = await client.post('/auth/api-key', { name: 'nightly export' });
  await client.post(`/auth/api-keys/${key.body.id}/rotate`);
  await client.delete(`/auth/api-keys/${key.body.id}`);
  const sessions = (await other.get('/auth/sessions')).body.items as {
    id: string;
    current: boolean;
  }[];
  await client.delete(`/auth/sessions/${sessions.find(({ current }) => current)!.id}`);
  await client.post('/auth/password/change', {
    current_password: memberPassword,
    new_password: newPassword,
  });
  await anyone.post('/auth/login', { email: user.email, password: 'wrong-password-123' });
  await client.post('/auth/switch-tenant', { tenant_id: first.id });
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

/** The person's own events once all have reached the audit, newest first. */
const activity = (): Promise<Event[]> =>
  eventually(async () => {
    const items = await itemsOf(client, '/auth/activity?limit=200');
    expect(items.slice(0, done.length).map(({ action }) => action)).toEqual(done.toReversed());
    return items;
  });

test('a tenant has its memberships and the sign-ins into it, and nothing else of a person', async () => {
  await activity();
  for (const [tenant, entries] of [
    [
      first,
      [
        'auth.login_succeeded',
        'auth.login_succeeded',
        'auth.login_succeeded',
        'auth.tenant_switched',
      ],
    ],
    [second, ['auth.tenant_switched']],
  ] as const) {
    const events = await itemsOf(tenant.admin, '/audit/events?limit=200');
    const ofPerson = events.filter(({ target }) => target === person.id);
    const ofSignIn = ofPerson.filter(({ action }) => action.startsWith('auth.'));
    expect(ofSignIn.map(({ action }) => action)).toEqual(entries);
    expect(ofPerson.length).toBeGreaterThan(ofSignIn.length);
    const kinds = new Set(events.map(({ action }) => action.replace(/_.*/, '')));
    expect([...kinds].sort()).toEqual([
      'auth.login',
      'auth.tenant',
      'tenant.created',
      'tenant.invitation',
      'tenant.member',
    ]);
  }
});

test('no event names another tenant than its own', async () => {
  await activity();
  for (const [tenant, other] of [
    [first, second],
    [second, first],
  ] as const) {
    const { text } = await tenant.admin.get('/audit/events?limit=200');
    for (const foreign of [other.id, 'nightly export', newPassword])
      expect(text).not.toContain(foreign);
  }
});

test('all else is in the chain of the platform', async () => {
  await activity();
  const events = await itemsOf(platform, '/audit/events?limit=200');
  const ofPlatform = events.filter(
    ({ target, tenant_id: chain }) => target === person.id && chain === null,
  );
  const inTenants = new Set(['auth.login_succeeded', 'auth.tenant_switched']);
  expect(ofPlatform.map(({ action }) => action)).toEqual([
    'auth.user_created',
    'auth.address_proved',
    ...done.filter((action) => !inTenants.has(action)),
  ]);
});

test('everybody sees what happened to their own account, newest first, page by page', async () => {
  const all = await activity();
  const times = all.map(({ occurred_at: at }) => at);
  expect(times).toEqual(times.toSorted().toReversed());
  expect(all.at(-1)!.action).toBe('auth.user_created');
  expect(all[0]).toEqual({
    id: expect.any(String),
    action: 'auth.tenant_switched',
    actor: { type: 'user', id: person.id },
    tenant_id: first.id,
    payload: { session_id: expect.any(String) },
    request_id: expect.any(String),
    occurred_at: expect.any(String),
  });
  const paged: Event[] = [];
  let query = '?limit=4';
  for (;;) {
    const { body } = await client.get(`/auth/activity${query}`);
    paged.push(...body.items);
    if (body.next_cursor === null) break;
    query = `?limit=4&cursor=${body.next_cursor}`;
  }
  expect(paged).toEqual(all);
});

test("no one sees another's, and no API key sees any", async () => {
  const ids = new Set((await activity()).map(({ id }) => id));
  for (const reader of [first.viewer, second.admin, platform]) {
    const items = await itemsOf(reader, '/auth/activity?limit=200');
    expect(items.length).toBeGreaterThan(0);
    expect(items.filter(({ id }) => ids.has(id))).toEqual([]);
  }
  const made = await client.post('/auth/api-key', { name: 'key', scopes: ['auth:self'] });
  const { status, body } = await new Client(strata.url, made.body.api_key).get('/auth/activity');
  expect([status, body.detail.code]).toEqual([403, 'insufficient_scope']);
});

test('a page of it is read from one index, however much there is', async () => {
  await database.query(
    `INSERT INTO audit.events
     SELECT 'more', n, gen_random_uuid(), 'auth.login_failed', 'system', 'auth', NULL,
       CASE n % 4 WHEN 0 THEN $1 ELSE gen_random_uuid()::text END, 'null', NULL, now() - n * interval '1 second', ''
     FROM generate_series(1, 20000) n`,
    [person.id],
  );
  await database.query('ANALYZE audit.events');
  const plan = await database.query(
    `EXPLAIN (FORMAT JSON) SELECT * FROM audit.events e WHERE e.action LIKE 'auth.%' AND e.target = $1
     AND (e.occurred_at, e.chain, e.seq) < (now(), 'platform', 9) ORDER BY e.occurred_at DESC, e.chain DESC, e.seq DESC LIMIT 51`,
    [person.id],
  );
  expect(JSON.stringify(plan)).toContain('events_account');
  expect(JSON.stringify(plan)).not.toMatch(/Seq Scan|"Sort"/);
});
