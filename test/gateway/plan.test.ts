/** Plans over REST: what they answer, who may ask, and dry runs with their impact. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { audited, requireProvedAudit } from '../support/audit.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  Client,
  createTenant,
  signIn,
  startStrata,
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
  strata = await startStrata({ DATABASE_URL: database.url });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Planned');
  other = await createTenant(strata.url, platform, 'Other');
  await tenant.admin.put(`/tenants/${tenant.id}/services/web`, {
    service_type: 'cloud_run',
    max_instances: 9,
  });
  await other.admin.put(`/tenants/${other.id}/services/secret`, {
    service_type: 'cloud_run',
    max_instances: 9,
  });
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

const lower = { max_instances: { maximum: 5 } };

test('a plan says what changes for whom, and is applied as it was looked at', async () => {
  const items = [
    { action: 'put', path: '/config/bounds', body: lower },
    {
      action: 'put',
      path: '/config/global/max_cost_impact_auto',
      body: { config_value: 1, is_public: true },
    },
  ];
  const planned = await platform.post('/config/plan', { items });
  expect([planned.status, planned.body]).toEqual([
    200,
    {
      base: { platform: expect.any(Number), at: expect.stringMatching(/Z$/) },
      digest: expect.stringMatching(/^[0-9]+-[0-9]+-[0-9a-f]{64}$/),
      changes: [
        { resource: '/config/bounds', path: '/max_instances', after: lower.max_instances },
        ...['config_key', 'is_public', 'requires_restart', 'config_value'].map((name) => ({
          resource: '/config/global/max_cost_impact_auto',
          path: `/${name}`,
          after: expect.anything(),
        })),
      ],
      impact: {
        tenants: { total: 2, changed: 2, shielded: 0, invalid: 2, clamped: 2 },
        by_key: {
          max_instances: { changed: 2, shielded_by: {} },
          max_cost_impact_auto: { changed: 0, shielded_by: { tenant_risk: 2 } },
        },
        items: expect.arrayContaining([
          {
            tenant_id: tenant.id,
            tenant_name: 'Planned',
            context: { service_id: 'web' },
            key: 'max_instances',
            before: 9,
            after: 5,
            decided_by: 'bounds',
            problem: expect.stringMatching(/^\/max_instances is 9; .*platform would be maximum 5$/),
          },
        ]),
        next_cursor: null,
      },
      complete: true,
    },
  ]);
  expect((await platform.get('/config/bounds')).status).toBe(404);
  const applied = await platform.post('/config/plan/apply', {
    digest: planned.body.digest,
    items,
    reason: 'the budget of this year',
  });
  const revision = planned.body.base.platform + 2;
  expect([applied.status, applied.body]).toEqual([
    200,
    {
      revision,
      items: [
        {
          action: 'put',
          path: '/config/bounds',
          outcome: 'created',
          revision: revision - 1,
        },
        {
          action: 'put',
          path: '/config/global/max_cost_impact_auto',
          outcome: 'created',
          revision,
        },
      ],
    },
  ]);
  const effective = `/tenants/${tenant.id}/config/effective?service_id=web`;
  expect((await tenant.viewer.get(effective)).body.values.max_instances).toBe(5);
  const event = await audited(platform, 'config.bounds.created', () => true);
  expect(event.payload).toMatchObject({
    revision: revision - 1,
    reason: 'the budget of this year',
  });
  await requireProvedAudit(platform);
  const again = await platform.post('/config/plan/apply', { digest: planned.body.digest, items });
  expect([again.status, again.body.detail.code]).toEqual([412, 'precondition_failed']);
  expect((await platform.delete('/config/bounds')).status).toBe(204);
});

test('a dry run is asked for its impact, and is the plan of one item', async () => {
  const path = '/config/service-types/cloud_run/default';
  const body = { scaling_limits: { max_instances: 4 } };
  const tried = await platform.patch(`${path}?dry_run=true&impact=true`, body);
  const planned = await platform.post('/config/plan', {
    items: [{ action: 'patch', path, body }],
  });
  expect(tried.body).toEqual({
    dry_run: true,
    invalidates: ['service_type_cloud_run_default'],
    changes: [{ path: '/scaling_limits/max_instances', before: 100, after: 4 }],
    base: { ...planned.body.base, at: expect.any(String) },
    digest: expect.stringContaining(planned.body.digest.split('-')[2]),
    impact: planned.body.impact,
    complete: true,
  });
  expect(tried.body.impact.items).toContainEqual({
    tenant_id: tenant.id,
    tenant_name: 'Planned',
    context: { service_id: 'web' },
    key: 'max_instances',
    before: 9,
    after: 4,
    decided_by: 'service_type',
    problem: expect.any(String),
  });
  const plain = await platform.patch(`${path}?dry_run=true`, body);
  expect(plain.body).not.toHaveProperty('impact');
  const real = await platform.patch(`${path}?impact=true`, body);
  expect([real.status, real.body.errors[0].path]).toEqual([422, '/impact']);
});

test('a rollback is tried with its impact, too', async () => {
  const path = '/config/global/default_region';
  const first = await platform.put(path, { config_value: 'eu', is_public: true });
  await platform.put(path, { config_value: 'us', is_public: true });
  const revision = Number(first.headers.get('x-config-revision'));
  const tried = await platform.post('/config/rollback?dry_run=true&impact=true', { revision });
  const plain = await platform.post('/config/rollback?dry_run=true', { revision });
  expect(tried.body).toMatchObject({ ...plain.body, complete: true });
  expect(tried.body.impact.by_key).toEqual({ default_region: { changed: 2, shielded_by: {} } });
  expect(tried.body.impact.items[0]).toMatchObject({ before: 'us', after: 'eu' });
  expect((await platform.get(path)).body.config_value).toBe('us');
});

test("a tenant's bounds show what they change of that tenant, and of no other", async () => {
  const path = `/tenants/${tenant.id}/config/bounds?dry_run=true&impact=true`;
  const { status, body, text } = await tenant.admin.put(path, lower);
  expect([status, body.impact.tenants]).toEqual([
    200,
    { total: 1, changed: 1, shielded: 0, invalid: 1, clamped: 1 },
  ]);
  expect(body.impact.items).toEqual([
    {
      tenant_id: tenant.id,
      tenant_name: 'Planned',
      context: { service_id: 'web' },
      key: 'max_instances',
      before: 9,
      after: 5,
      decided_by: 'bounds',
      problem: expect.stringMatching(/tenant would be maximum 5$/),
    },
  ]);
  expect(text).not.toMatch(/secret|Other/);
  expect(text).not.toContain(other.id);
  expect((await tenant.operator.put(path, lower)).status).toBe(403);
  expect((await other.admin.put(path, lower)).body.detail.code).toBe('tenant_mismatch');
});

test.each([
  ['a path of no document of the platform', { path: '/tenants/x/config/risk' }, '/items/0/path'],
  ['a key that no entry has', { path: '/config/global/a%20b' }, '/items/0/path'],
  ['a body that the write refuses', { body: { wrong: 1 } }, '/items/0/body/wrong'],
  ['no body', { body: undefined }, '/items/0/body'],
])('%s is refused by its place', async (_what, fault, path) => {
  const item = { action: 'put', path: '/config/global/a', body: { config_value: 1 }, ...fault };
  const answer = await platform.post('/config/plan', { items: [item] });
  expect([answer.status, answer.body.errors?.map((each: { path: string }) => each.path)]).toEqual([
    422,
    expect.arrayContaining([path]),
  ]);
});

test('tenants plan nothing, and a cursor is of its own plan', async () => {
  const items = [{ action: 'put', path: '/config/bounds', body: lower }];
  for (const client of [tenant.admin, tenant.viewer])
    expect((await client.post('/config/plan', { items })).status).toBe(403);
  const first = await platform.post('/config/plan', { items, limit: 1 });
  const { next_cursor: cursor } = first.body.impact;
  const next = await platform.post('/config/plan', { items, limit: 1, cursor });
  expect(next.body.impact.items).not.toEqual(first.body.impact.items);
  expect(next.body.impact.next_cursor).toBeNull();
  const others = [{ action: 'delete', path: '/config/global/max_cost_impact_auto' }];
  const wrong = await platform.post('/config/plan', { items: others, cursor });
  expect([wrong.status, wrong.body.detail.code]).toEqual([412, 'precondition_failed']);
  const made = await platform.post('/config/plan', { items, cursor: 'made-up' });
  expect([made.status, made.body.errors[0].path]).toEqual([422, '/cursor']);
});

test('a key that only writes tries a write, and is shown no impact', async () => {
  const keyWith = async (...scopes: string[]): Promise<Client> => {
    const made = await platform.post('/auth/api-key', { name: 'planner', scopes });
    return new Client(strata.url, made.body.api_key);
  };
  const writer = await keyWith('platform:write');
  const path = '/config/global/tried?dry_run=true';
  expect((await writer.put(path, { config_value: 1 })).status).toBe(200);
  const asked = await writer.put(`${path}&impact=true`, { config_value: 1 });
  expect([asked.status, asked.body.detail.code]).toEqual([403, 'insufficient_scope']);
  const both = await keyWith('platform:write', 'platform:read');
  expect((await both.put(`${path}&impact=true`, { config_value: 1 })).body.complete).toBe(true);
});

test('nor told which private entries, and whose configurations, have changed since a plan', async () => {
  const made = await platform.post('/auth/api-key', { name: 'w', scopes: ['platform:write'] });
  const writer = new Client(strata.url, made.body.api_key);
  await platform.put('/config/global/kept_private', { config_value: 1 });
  await tenant.admin.patch(`/tenants/${tenant.id}/services/web`, { max_instances: 8 });
  const body = { config_value: 7, is_public: true };
  const items = [{ action: 'put', path: '/config/global/max_instances', body }];
  const { body: planned } = await platform.post('/config/plan', { items });
  const none = '0'.repeat(64);
  const stages = [{ percent: 100, bake_minutes: 0, gate: [] }];
  const rollout = { title: 'T', reason: 'R', stages };
  for (const [path, more] of Object.entries({ 'plan/apply': {}, rollouts: rollout }))
    for (const [digest, named] of [
      [`0-0-${none}`, 'kept_private'],
      [`${planned.base.platform}-0-${none}`, tenant.id],
    ] as const) {
      const apply = (by: Client) => by.post(`/config/${path}`, { items, digest, ...more });
      const answers = [await apply(platform), await apply(writer)];
      expect(answers.map(({ status }) => status)).toEqual([412, 412]);
      expect(answers.map(({ text }) => text.includes(named))).toEqual([true, false]);
    }
});
