/**
 * A tenant of 50,000 members is disabled like one of five, its searches hold up no other, and its
 * groups are asked.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { deciderActions } from '../../services/tenant-config/actions/deciders.ts';
import { tenantConfigSchema } from '../../services/tenant-config/schema.ts';
import { openDatabase } from '../../shared/database/open.ts';
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

test('whether a large group has somebody who decides is looked for in parts, to the last', async () => {
  const { id } = await createTenant(strata.url, platform, 'Large parts');
  await database.query(
    `INSERT INTO tenant_config.members (tenant_id, user_id, roles, groups, status, added_at)
     SELECT $1, gen_random_uuid(), '{operator}', '{everyone}', 'active', now() FROM generate_series(1, 2000)`,
    [id],
  );
  const [last] = await database.query<{ user_id: string }>(
    `SELECT user_id FROM tenant_config.members WHERE tenant_id = $1 AND groups = '{everyone}'
     ORDER BY user_id DESC LIMIT 1`,
    [id],
  );
  const admins = await database.query<{ user_id: string }>(
    `SELECT user_id FROM tenant_config.members WHERE tenant_id = $1 AND 'tenant_admin' = ANY (roles)`,
    [id],
  );
  const admin = admins[0]!.user_id;
  const options = { url: database.url, poolSize: 2, timeoutMs: 20_000, ssl: false };
  const db = await openDatabase(options, tenantConfigSchema);
  const decide = deciderActions(db)['tenant-config.members.decider'];
  const asked: number[] = [];
  const rightWhile = async (active: readonly string[]) => {
    const call = async (_name: string, { user_ids: ids }: { user_ids: string[] }) => {
      asked.push(ids.length);
      const found = ids.filter((each) => active.includes(each));
      return found.map((each) => ({ id: each, status: 'active', email: '', display_name: null }));
    };
    const of = { tenant_id: id, user_id: admin, groups: ['everyone'] };
    return (await decide(of as never, { call } as never)).decider?.right;
  };
  try {
    expect(await rightWhile([admin])).toBe('groups_without_members');
    expect(await rightWhile([admin, last!.user_id])).toBeUndefined();
    expect(Math.max(...asked)).toBeLessThanOrEqual(500);
    const before = asked.length;
    const [first] = await database.query<{ user_id: string }>(
      `SELECT user_id FROM tenant_config.members WHERE tenant_id = $1 AND groups = '{everyone}'
       ORDER BY user_id LIMIT 1`,
      [id],
    );
    expect(await rightWhile([admin, first!.user_id])).toBeUndefined();
    // The first part, and whoever decides.
    expect(asked.length - before).toBe(2);
  } finally {
    await db.destroy();
  }
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
