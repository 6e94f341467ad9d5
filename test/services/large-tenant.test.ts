/**
 * A tenant of 50,000 members is disabled like one of five, its searches hold up no other, and its
 * groups are asked.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { holdLock } from '../support/held-lock.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  startStrata,
  type Client,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Large');
  await database.query(
    `INSERT INTO tenant_config.members (tenant_id, user_id, roles, groups, status, added_at)
     SELECT $1, gen_random_uuid(), '{viewer}', '{}', 'active', now() FROM generate_series(1, 50000)`,
    [tenant.id],
  );
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

test.each([
  ['notifier.decisions', '/decisions?service_id=none', '/approvals'],
  ['tenant_config.configuration_history', '/config/history?changed_by=nobody', '/users'],
])(
  'many searches of its %s leave connections to others',
  async (table, search, other) => {
    const elsewhere = await createTenant(strata.url, platform, `Beside ${table}`);
    const lock = await holdLock(database, `LOCK TABLE ${table}`);
    const searches = Array.from({ length: 20 }, () =>
      tenant.admin.get(`/tenants/${tenant.id}${search}`),
    );
    await lock.untilWaiting(2);
    const { status } = await elsewhere.admin.get(`/tenants/${elsewhere.id}${other}`);
    await lock.release();
    const statuses = new Set((await Promise.all(searches)).map((answer) => answer.status));
    expect([status, [...statuses]]).toEqual([200, [200]]);
  },
  120_000,
);

test('a group of more members than a statement has parameters is asked for approval', async () => {
  const { id, admin } = await createTenant(strata.url, platform, 'Large group');
  await database.query(
    `INSERT INTO tenant_config.members (tenant_id, user_id, roles, groups, status, added_at)
     SELECT $1, gen_random_uuid(), '{operator}', '{everyone}', 'active', now() FROM generate_series(1, 66000)`,
    [id],
  );
  const groups = { approver_groups: { risk_levels: { high: ['everyone'] } } };
  expect((await admin.put(`/tenants/${id}/config/notifications`, groups)).status).toBe(200);
  const question = { action: 'scale', risk_level: 'high', title: 'Scale up' };
  const asked = await admin.post(`/tenants/${id}/approvals`, question);
  expect([asked.status, asked.text]).toEqual([202, expect.any(String)]);
});

test('a change of all its members sends less than 10 kB to each node, and holds for each of them', async () => {
  for (const client of [tenant.operator, tenant.viewer])
    expect((await client.get(`/tenants/${tenant.id}/config/effective`)).status).toBe(200);
  const { status } = await platform.patch(`/tenants/${tenant.id}`, { status: 'disabled' });
  expect(status).toBe(200);
  const [change] = await database.query<{ bytes: number; keys: string[] }>(
    `SELECT octet_length(row_to_json(c)::text) AS bytes, keys FROM strata.changes c
     WHERE scope = $1 ORDER BY revision DESC LIMIT 1`,
    [`members:${tenant.id}`],
  );
  expect(change!.bytes).toBeLessThan(10_000);
  expect(change!.keys).toEqual(['whole_scope']);
  for (const client of [tenant.operator, tenant.viewer])
    expect((await client.get(`/tenants/${tenant.id}/config/effective`)).status).toBe(403);
  // The members were counted as they were inserted.
  const { body } = await platform.get(`/tenants/${tenant.id}/usage`);
  expect(body.items).toContainEqual(expect.objectContaining({ what: 'members', used: 50_003 }));
});
