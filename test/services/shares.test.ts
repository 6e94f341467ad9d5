/**
 * What one person or tenant can take of mails and credentials: how much, what the refusal says, and
 * that what is kept stays bounded. Counts are in the database, so they hold over nodes.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../support/cluster.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  joinTenant,
  memberPassword,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;
let other: TenantFixture;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    INVITATIONS_PER_MINUTE_PER_CALLER: '6',
    INVITATIONS_PER_HOUR_PER_TENANT: '10',
    INVITED_MEMBERS_PER_TENANT: '5',
    TEST_NOTICES_PER_MINUTE_PER_CALLER: '4',
    TEST_NOTICES_PER_MINUTE_PER_TENANT: '6',
    APPROVAL_MAILS_PER_HOUR_PER_TENANT: '4',
    TENANT_SWITCHES_PER_MINUTE: '10',
    SESSIONS_PER_PERSON: '3',
    API_KEYS_PER_PERSON: '3',
    API_KEYS_PER_MINUTE: '20',
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Shares');
  other = await createTenant(strata.url, platform, 'Others');
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

/** A refusal that names its setting, and a time to come back where waiting helps. */
function expectRefusal({ status, body, headers }: Answer, code: string, setting: string): void {
  expect([status, body.detail.code]).toEqual([code === 'conflict' ? 409 : 429, code]);
  expect(body.detail.message).toContain(`(${setting})`);
  if (code !== 'rate_limited') return;
  const wait = Number(headers.get('retry-after'));
  expect(wait).toBeGreaterThan(0);
  expect(wait).toBeLessThanOrEqual(3600);
}

describe('invitations', () => {
  let asked = 0;
  const invite = (by: Client): Promise<Answer> => {
    asked += 1;
    return by.post(`/tenants/${tenant.id}/users`, {
      email: `stranger-${asked}@example.com`,
      roles: ['viewer'],
    });
  };
  let second: Client;

  test('have a share of each person, and the refused address gets no account', async () => {
    // Two have gone to the operator and the viewer, and one goes to the second administrator.
    const member = { email: 'second@shares.example', roles: ['tenant_admin'] };
    second = (await addMember(tenant.admin, tenant.id, member)).client;
    for (let count = 0; count < 3; count += 1)
      expect((await invite(tenant.admin)).status).toBe(201);
    const refused = await invite(tenant.admin);
    expectRefusal(refused, 'rate_limited', 'INVITATIONS_PER_MINUTE_PER_CALLER');
    const accounts = await database.query('SELECT FROM auth.users WHERE email = $1', [
      `stranger-${asked}@example.com`,
    ]);
    expect(accounts).toEqual([]);
  });

  test('are so many that no one has accepted', async () => {
    expect((await invite(second)).status).toBe(201);
    expect((await invite(second)).status).toBe(201);
    expectRefusal(await invite(second), 'conflict', 'INVITED_MEMBERS_PER_TENANT');
  });

  test('have a share of the tenant, which removing those invited does not give back', async () => {
    const members = await second.get(`/tenants/${tenant.id}/users`);
    for (const { user_id: id, status } of members.body.items)
      if (status === 'invited') await second.delete(`/tenants/${tenant.id}/users/${id}`);
    expect((await invite(second)).status).toBe(201);
    expectRefusal(await invite(second), 'rate_limited', 'INVITATIONS_PER_HOUR_PER_TENANT');
    const member = { email: 'somebody@others.example', roles: ['viewer'] };
    expect((await other.admin.post(`/tenants/${other.id}/users`, member)).status).toBe(201);
  });
});

test('approvals mail a share of addresses that are only named, and are sent again within it', async () => {
  const busy = await createTenant(strata.url, platform, 'Busy');
  const at = (rest: string): string => `/tenants/${busy.id}${rest}`;
  const addresses = ['one', 'two', 'three'].map((name) => `${name}@elsewhere.example`);
  await busy.admin.put(at('/config/notifications'), {
    email: { approval_recipients: addresses },
    approver_groups: { action_overrides: { of_group: ['sre'] } },
  });
  const sre = { email: 'sre@busy.example', roles: ['operator'], groups: ['sre'] };
  await addMember(busy.admin, busy.id, sre);
  const ask = (action: string): Promise<Answer> =>
    busy.operator.post(at('/approvals'), { action, risk_level: 'low', title: 'T' });
  for (let asked = 0; asked < 5; asked += 1) expect((await ask('of_group')).status).toBe(202);
  expect((await ask('any')).status).toBe(202);
  const [delivered] = await eventually(async () => {
    const { body } = await busy.operator.get(at('/notifications/deliveries?state=delivered'));
    expect(body.items).not.toEqual([]);
    return body.items as { id: string }[];
  });
  const again = (): Promise<Answer> =>
    busy.admin.post(at(`/notifications/deliveries/${delivered!.id}/replay`));
  expect((await again()).status).toBeLessThan(300);
  const setting = 'APPROVAL_MAILS_PER_HOUR_PER_TENANT';
  expectRefusal(await again(), 'rate_limited', setting);
  expectRefusal(await ask('any'), 'rate_limited', setting);
  const start = { action: 'any', risk_level: 'high', title: 'T' };
  expectRefusal(await busy.operator.post(at('/automations'), start), 'rate_limited', setting);
  expect((await ask('of_group')).status).toBe(202);
});

test('test notices have a share of each person and of the tenant, by what is sent', async () => {
  await tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, {
    email: { approval_recipients: ['one@example.com', 'two@example.com'] },
  });
  const second = await signIn(strata.url, 'second@shares.example', memberPassword);
  const send = (by: Client): Promise<Answer> =>
    by.post(`/tenants/${tenant.id}/notifications/test`, { channel: 'email' });
  expect([(await send(tenant.admin)).status, (await send(tenant.admin)).status]).toEqual([
    200, 200,
  ]);
  expectRefusal(await send(tenant.admin), 'rate_limited', 'TEST_NOTICES_PER_MINUTE_PER_CALLER');
  expect((await send(second)).status).toBe(200);
  expectRefusal(await send(second), 'rate_limited', 'TEST_NOTICES_PER_MINUTE_PER_TENANT');
});

test('keys that are made and rotated again and again have a share of each person', async () => {
  const { viewer: client, operator } = await createTenant(strata.url, platform, 'Rotating');
  const { body } = await client.post('/auth/api-key', { name: 'k' });
  const rotate = (): Promise<Answer> => client.post(`/auth/api-keys/${body.id}/rotate`);
  for (let asked = 1; asked < 20; asked += 1) expect((await rotate()).status).toBe(201);
  expectRefusal(await rotate(), 'rate_limited', 'API_KEYS_PER_MINUTE');
  const another = await client.post('/auth/api-key', { name: 'another' });
  expectRefusal(another, 'rate_limited', 'API_KEYS_PER_MINUTE');
  expect((await operator.post('/auth/api-key', { name: 'k' })).status).toBe(201);
});

test('changes of tenant have a share of each person, and leave one more refresh token', async () => {
  await joinTenant(other.admin, other.id, tenant.viewer, {
    email: tenant.emails.viewer!,
    roles: ['viewer'],
  });
  const signedIn = await new Client(strata.url).post('/auth/login', {
    email: tenant.emails.viewer,
    password: memberPassword,
    tenant_id: tenant.id,
  });
  const person = new Client(strata.url, signedIn.body.access_token);
  const tokens = new Set<string>();
  for (let turn = 0; turn < 10; turn += 1) {
    const { body, status } = await person.post('/auth/switch-tenant', {
      tenant_id: turn % 2 === 0 ? other.id : tenant.id,
    });
    expect(status).toBe(200);
    tokens.add(body.refresh_token);
  }
  expect(tokens.size).toBe(1);
  const rows = await database.query('SELECT FROM auth.refresh_tokens WHERE session_id = $1', [
    signedIn.body.session_id,
  ]);
  expect(rows).toHaveLength(2);
  expectRefusal(
    await person.post('/auth/switch-tenant', { tenant_id: other.id }),
    'rate_limited',
    'TENANT_SWITCHES_PER_MINUTE',
  );
  const refreshed = await person.post('/auth/refresh', { refresh_token: [...tokens][0] });
  expect([refreshed.status, refreshed.body.tenant.id]).toEqual([200, tenant.id]);
});

test('of more sessions than a person may have those used longest ago end', async () => {
  const clients: Client[] = [];
  for (let count = 0; count < 5; count += 1)
    clients.push(await signIn(strata.url, other.emails.operator!, memberPassword));
  const statuses = await Promise.all(
    clients.map(async (client) => (await client.get('/auth/me')).status),
  );
  expect(statuses).toEqual([401, 401, 200, 200, 200]);
  const activity = await clients[4]!.get('/auth/activity');
  expect(activity.text).toContain('SESSIONS_PER_PERSON');
});

test("sessions of a tenant's own provider end none that are good elsewhere", async () => {
  const signInThrice = async (): Promise<void> => {
    for (let count = 0; count < 3; count += 1)
      await signIn(strata.url, other.emails.viewer!, memberPassword);
  };
  const ofViewer = 'user_id = (SELECT id FROM auth.users WHERE email = $1) AND revoked_at IS NULL';
  await signInThrice();
  await database.query(`UPDATE auth.sessions SET confined_to = $2 WHERE ${ofViewer}`, [
    other.emails.viewer,
    other.id,
  ]);
  await signInThrice();
  const open = await database.query(
    `SELECT confined_to, count(*)::int AS count FROM auth.sessions WHERE ${ofViewer} GROUP BY 1 ORDER BY 1`,
    [other.emails.viewer],
  );
  expect(open).toEqual([
    { confined_to: other.id, count: 3 },
    { confined_to: null, count: 3 },
  ]);
});

test('a person has so many API keys in a tenant, and those that have expired give way', async () => {
  const make = (): Promise<Answer> => other.admin.post('/auth/api-key', { name: 'ci' });
  const answers = await Promise.all(Array.from({ length: 6 }, make));
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(3);
  for (const answer of answers)
    if (answer.status !== 201) expectRefusal(answer, 'conflict', 'API_KEYS_PER_PERSON');
  await database.query(
    `UPDATE auth.api_keys SET expires_at = now() - interval '1 s'
     WHERE id = (SELECT id FROM auth.api_keys WHERE tenant_id = $1 LIMIT 1)`,
    [other.id],
  );
  expect((await make()).status).toBe(201);
  expectRefusal(await make(), 'conflict', 'API_KEYS_PER_PERSON');
});
