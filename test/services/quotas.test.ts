/**
 * What a tenant may have: each limit is met and not exceeded, also by many at the same time, and is
 * raised without a restart.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../support/cluster.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  addMember,
  adminPassword,
  createTenantWith,
  signIn,
  startStrata,
  type Answer,
  type Client,
  type Running,
  type TenantWith,
} from '../support/strata.ts';

const limits = {
  documents: ['DOCUMENTS_PER_TENANT', 3],
  members: ['MEMBERS_PER_TENANT', 5],
  service_accounts: ['SERVICE_ACCOUNTS_PER_TENANT', 2],
  api_keys: ['API_KEYS_PER_TENANT', 3],
  approvals_pending: ['APPROVALS_MAX_PENDING', 4],
  automations_live: ['AUTOMATIONS_LIVE_PER_TENANT', 2],
  history_per_hour: ['HISTORY_ENTRIES_PER_HOUR_PER_TENANT', 30],
} as const;
type What = keyof typeof limits;

const folder = mkdtempSync(join(tmpdir(), 'strata-quotas-'));
const envFile = join(folder, 'strata.env');
let database: Database;
let strata: Running;
let platform: Client;

/** Every limit, one of them other than above. */
function setLimits(raised?: What): void {
  const lines = Object.entries(limits).map(
    ([what, [setting, most]]) => `${setting}=${what === raised ? most + 1 : most}`,
  );
  writeFileSync(envFile, `${lines.join('\n')}\n`);
}
async function reload(raised?: What): Promise<void> {
  setLimits(raised);
  expect((await platform.post('/config/reload', { reload_env: true })).status).toBe(200);
}

beforeAll(async () => {
  setLimits();
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url, ENV_FILE: envFile });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
  rmSync(folder, { recursive: true, force: true });
});

const usageOf = async ({ id, admin }: TenantWith<never>, what: What) => {
  const { body } = await admin.get(`/tenants/${id}/usage`);
  return body.items.find((item: { what: string }) => item.what === what);
};

let made = 0;
const name = (): string => `n${(made += 1)}`;
const kinds: Record<What, (tenant: TenantWith<never>) => Promise<Answer>> = {
  documents: ({ admin, id }) =>
    made % 2 === 0
      ? admin.put(`/tenants/${id}/config/agents/${name()}`, {})
      : admin.put(`/tenants/${id}/projects/${name()}/config`, {}),
  members: ({ admin, id }) =>
    admin.post(`/tenants/${id}/users`, { email: `${name()}@quota.example`, roles: ['viewer'] }),
  service_accounts: ({ admin, id }) =>
    admin.post(`/tenants/${id}/service-accounts`, { name: name(), roles: ['viewer'] }),
  api_keys: ({ admin }) => admin.post('/auth/api-key', { name: name() }),
  approvals_pending: ({ admin, id }) =>
    admin.post(`/tenants/${id}/approvals`, { action: 'scale', risk_level: 'high', title: 't' }),
  automations_live: ({ admin, id }) =>
    admin.post(`/tenants/${id}/automations`, { action: 'scale', risk_level: 'high' }),
  history_per_hour: ({ admin, id }) =>
    admin.put(`/tenants/${id}/config/agents/same`, { custom: { n: (made += 1) } }),
};

test.each(Object.keys(limits) as What[])(
  'a tenant has as many %s as it may, however many ask at the same time, and more by a setting',
  async (what) => {
    const [setting, most] = limits[what];
    const tenant = await createTenantWith(strata.url, platform, `Quota ${what}`);
    const { used, limit } = await usageOf(tenant, what);
    expect(limit).toBe(most);
    const make = kinds[what];

    const answers = await Promise.all(Array.from({ length: most + 4 }, () => make(tenant)));
    const { done = [], refused = [] } = Object.groupBy(answers, ({ status }) =>
      status < 300 ? 'done' : 'refused',
    );
    for (const { status, body } of refused) {
      expect(['422 quota_exceeded', '429 rate_limited']).toContain(`${status} ${body.detail.code}`);
      expect(body.detail.message).toContain(setting);
    }
    expect(done).toHaveLength(most - used);
    expect(await usageOf(tenant, what)).toEqual({ what, used: most, limit: most, setting });

    await reload(what);
    const further = [await make(tenant), await make(tenant)];
    await reload();
    expect(further.map(({ status }) => status < 300)).toEqual([true, false]);
    expect((await usageOf(tenant, what)).used).toBe(most + 1);

    if (what === 'history_per_hour') return;
    const near = await platform.get('/config/usage?limit=200');
    expect(near.body.items).toContainEqual({
      tenant_id: tenant.id,
      what,
      used: most + 1,
      limit: most,
    });
  },
);

test('no account is made for a member for whom there is no room', async () => {
  const tenant = await createTenantWith(strata.url, platform, 'Quota accounts');
  const { used, limit } = await usageOf(tenant, 'members');
  for (let each = used; each < limit; each += 1)
    expect((await kinds.members(tenant)).status).toBe(201);
  const { status, body } = await kinds.members(tenant);
  expect([status, body.detail.code]).toEqual([422, 'quota_exceeded']);
  const found = await platform.get(`/auth/users?email=n${made}@quota.example`);
  expect([found.status, found.body.items]).toEqual([200, []]);
});

test('an emergency stop is possible where the quota of changes is used up', async () => {
  const tenant = await createTenantWith(strata.url, platform, 'Stop');
  const change = () => kinds.history_per_hour(tenant);
  while ((await change()).status < 300);
  const stop = { global_settings: { max_concurrent_automations: 0 } };
  const stopped = await tenant.admin.patch(`/tenants/${tenant.id}/config/risk`, stop);
  expect([stopped.status, (await change()).status]).toEqual([200, 429]);
});

test('as many change sets are open as may be, however many are opened together, and the glass is broken beside them', async () => {
  const tenant = await createTenantWith(strata.url, platform, 'Quota change sets');
  const base = `/tenants/${tenant.id}/config`;
  const item = { action: 'put', path: `${base}/agents/a`, body: { custom: { n: 1 } } };
  const open = (query = '') =>
    tenant.admin.post(`${base}/changesets${query}`, { title: 't', reason: 'r', items: [item] });
  const many = Array.from({ length: 110 }, (_each, index) => open(index % 2 ? '?submit=true' : ''));
  const codes = (await Promise.all(many)).map(({ status, body }) => body.detail?.code ?? status);
  expect(Map.groupBy(codes, (code) => code).get(201)).toHaveLength(100);
  expect(new Set(codes)).toEqual(new Set([201, 'quota_exceeded']));

  expect((await tenant.admin.put(`${base}/change-policy`, {})).status).toBe(201);
  const emergency = { 'X-Break-Glass': 'checkout is down for everybody' };
  const write = (headers: Record<string, string> = {}) =>
    tenant.admin.put(`${base}/agents/a`, item.body, headers);
  expect((await write()).body.detail.code).toBe('change_approval_required');
  expect((await write(emergency)).status).toBe(201);
});

test('an approval counts where the quota of changes is used up, and says that it is not applied yet', async () => {
  const tenant = await createTenantWith(strata.url, platform, 'Quota approvals');
  const base = `/tenants/${tenant.id}`;
  const member = { email: 'author@quota.example', roles: ['tenant_admin'] };
  const { client: author } = await addMember(tenant.admin, tenant.id, member);
  await tenant.admin.put(`${base}/config/change-policy`, { config_types: ['project_config'] });
  const item = { action: 'put', path: `${base}/projects/p/config`, body: { name: 'p' } };
  const body = { title: 't', reason: 'r', items: [item] };
  const { id, digest } = (await author.post(`${base}/config/changesets?submit=true`, body)).body;
  while ((await kinds.history_per_hour(tenant)).status < 300);
  const approved = await tenant.admin.post(`${base}/config/changesets/${id}/approve`, { digest });
  expect([approved.status, approved.body.state]).toEqual([200, 'scheduled']);
  expect(approved.body.approved_by).toHaveLength(1);
});

test('a temporary change ends also where the quota of changes is used up', async () => {
  const tenant = await createTenantWith(strata.url, platform, 'Temporary');
  const agent = `/tenants/${tenant.id}/config/agents/while`;
  await tenant.admin.put(agent, { custom: { n: 1 } });
  const until = encodeURIComponent(new Date(Date.now() + 60_000).toISOString());
  const made = await tenant.admin.patch(`${agent}?until=${until}`, { custom: { n: 2 } });
  while ((await kinds.history_per_hour(tenant)).status < 300);
  await database.query('UPDATE strata.temporary_changes SET until = now(), due_at = now()');
  await eventually(async () =>
    expect((await tenant.admin.get(agent)).body.custom).toEqual({ n: 1 }),
  );
  expect([made.status, (await kinds.history_per_hour(tenant)).status]).toEqual([200, 429]);
});

test('what is removed makes room', async () => {
  const tenant = await createTenantWith(strata.url, platform, 'Room');
  const { id, admin } = tenant;
  for (const agent of ['a', 'b', 'c'])
    expect((await admin.put(`/tenants/${id}/config/agents/${agent}`, {})).status).toBe(201);
  const project = (): Promise<Answer> => admin.put(`/tenants/${id}/projects/p/config`, {});
  expect((await project()).status).toBe(422);
  // What is there may be changed.
  expect((await admin.put(`/tenants/${id}/config/agents/a`, {})).status).toBe(200);
  await admin.delete(`/tenants/${id}/config/agents/a`);
  expect((await usageOf(tenant, 'documents')).used).toBe(2);
  expect((await project()).status).toBe(201);
});

test('platform admins page through who is near, and tenants see themselves alone', async () => {
  const tenant = await createTenantWith(strata.url, platform, 'Near', ['operator']);
  const all = (await platform.get('/config/usage?limit=200&percent=40')).body.items;
  const paged: unknown[] = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const after: string = cursor === '' ? '' : `&cursor=${cursor}`;
    const { body } = await platform.get(`/config/usage?limit=2&percent=40${after}`);
    paged.push(...body.items);
    cursor = body.next_cursor;
  }
  expect(all.length).toBeGreaterThan(4);
  expect(paged).toEqual(all);
  expect((await tenant.admin.get('/config/usage')).status).toBe(403);
  expect((await tenant.operator.get(`/tenants/${tenant.id}/usage`)).status).toBe(403);
  const other = await createTenantWith(strata.url, platform, 'Other');
  expect((await other.admin.get(`/tenants/${tenant.id}/usage`)).status).toBe(403);
  expect((await platform.get(`/tenants/${tenant.id}/usage`)).status).toBe(200);
});
