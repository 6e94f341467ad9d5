/** Budgets and freezes over REST, as documents and as what automation is decided by. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../support/cluster.ts';
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

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

let tenants = 0;
function freshTenant(): Promise<TenantFixture> {
  tenants += 1;
  return createTenant(strata.url, platform, `Over time ${tenants}`);
}

const budget = { amount: '500.00', currency: 'EUR', per: 'day', timezone: 'Europe/Rome' };
const always = {
  during: [
    {
      days: ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'],
      start: '00:00',
      end: '00:00',
      timezone: 'UTC',
    },
  ],
};

describe.each([
  ['budgets', { a: budget }, { b: { ...budget, per: 'week' } }],
  ['freezes', { a: always }, { b: { during: [{ dates: ['12-25'], timezone: 'Europe/Rome' }] } }],
])('%s', (kind, first, more) => {
  test.each(['tenant', 'platform'] as const)(
    'of the %s are a document with revisions, trials, history and a way back',
    async (owner) => {
      const { id, admin } = await freshTenant();
      const client = owner === 'tenant' ? admin : platform;
      const base = owner === 'tenant' ? `/tenants/${id}/config` : '/config';
      const path = `${base}/${kind}`;
      expect((await client.get(path)).status).toBe(404);
      const tried = await client.put(`${path}?dry_run=true`, first);
      expect([tried.status, tried.body.changes.length > 0]).toEqual([200, true]);
      expect((await client.get(path)).status).toBe(404);

      const put = await client.put(path, first);
      expect([put.status, put.body]).toEqual([201, first]);
      const etag = put.headers.get('etag')!;
      const patched = await client.patch(path, more);
      expect([patched.status, patched.body]).toEqual([200, { ...first, ...more }]);
      const late = await client.put(path, first, { 'If-Match': etag });
      expect([late.status, late.body.detail.code]).toEqual([412, 'precondition_failed']);
      expect((await client.get(path)).headers.get('etag')).toBe(patched.headers.get('etag'));

      const revision = Number(put.headers.get('x-config-revision'));
      const history = await client.get(`${base}/history?config_type=${kind}_config`);
      expect(history.body.items.map((each: { action: string }) => each.action)).toEqual([
        'update',
        'create',
      ]);
      const back = await client.post(`${base}/rollback`, { revision });
      expect([back.status, back.body]).toEqual([200, first]);
      expect((await client.get(path)).body).toEqual(first);
      expect((await client.delete(path)).status).toBe(204);
      expect((await client.get(path)).status).toBe(404);
      const events = `/audit/events?action=config.${kind}.deleted`;
      const whose = owner === 'tenant' ? `&tenant_id=${id}` : '';
      await eventually(async () => {
        expect((await client.get(`${events}${whose}`)).body.items.length).toBe(1);
      });
    },
  );

  test('of the platform are planned and applied as its other documents', async () => {
    const items = [{ action: 'put', path: `/config/${kind}`, body: first }];
    const plan = await platform.post('/config/plan', { items });
    expect([plan.status, plan.body.impact.items ?? [], plan.body.complete]).toEqual([
      200,
      [],
      true,
    ]);
    const applied = await platform.post('/config/plan/apply', { digest: plan.body.digest, items });
    expect([applied.status, applied.body.items[0].outcome]).toEqual([200, 'created']);
    expect((await platform.delete(`/config/${kind}`)).status).toBe(204);
  });
});

describe('what is wrong is refused with its path', () => {
  test.each([
    ['budgets', { b: { ...budget, amount: '-5' } }, '/b/amount'],
    ['budgets', { b: { ...budget, timezone: 'Nowhere' } }, '/b/timezone'],
    ['budgets', { a: budget, b: { ...budget, currency: 'USD' } }, '/b/currency'],
    ['freezes', { f: { during: [{ timezone: 'UTC' }] } }, '/f/during/0'],
    [
      'freezes',
      { f: { during: [{ from: '2020-01-01T00:00', until: '2020-01-02T00:00', timezone: 'UTC' }] } },
      '/f/during/0/until',
    ],
  ])('%s %j', async (kind, document, path) => {
    const { id, admin } = await freshTenant();
    for (const [client, url] of [
      [admin, `/tenants/${id}/config/${kind}`],
      [platform, `/config/${kind}`],
    ] as const) {
      const { status, body } = await client.put(url, document);
      expect([status, body.errors[0].path]).toEqual([422, path]);
    }
  });

  test("a currency that is not the platform's", async () => {
    const { id, admin } = await freshTenant();
    await platform.put('/config/budgets', { p: { ...budget, amount: '1000000' } });
    const refused = await admin.put(`/tenants/${id}/config/budgets`, {
      t: { ...budget, currency: 'USD' },
    });
    expect([refused.status, refused.body.errors[0].path]).toEqual([422, '/t/currency']);
    await platform.delete('/config/budgets');
  });
});

describe('a freeze', () => {
  const decide = (tenant: TenantFixture, more: object = {}) =>
    tenant.operator.post(`/tenants/${tenant.id}/decide`, {
      action: 'scale',
      risk_level: 'low',
      ...more,
    });

  test.each(['tenant', 'platform'] as const)(
    'of the %s denies decisions and starts, and an override of its owner lets them through',
    async (owner) => {
      const tenant = await freshTenant();
      const client = owner === 'tenant' ? tenant.admin : platform;
      const path = owner === 'tenant' ? `/tenants/${tenant.id}/config/freezes` : '/config/freezes';
      const automations = `/tenants/${tenant.id}/automations`;
      const body = { action: 'scale', risk_level: 'low' };
      const running = await tenant.operator.post(automations, body);
      expect(running.body.state).toBe('running');

      await client.put(path, { f: { ...always, reason: 'release' } });
      const denied = await decide(tenant);
      expect([denied.body.decision, denied.body.reasons[0]]).toMatchObject([
        'deny',
        { rule: 'freeze', name: 'f', limit: 'release', layer: 'freezes' },
      ]);
      const started = await tenant.operator.post(automations, body);
      expect([started.body.state, started.body.reasons[0].rule]).toEqual(['denied', 'freeze']);
      // What runs continues.
      const beat = await tenant.operator.post(`${automations}/${running.body.id}/heartbeat`);
      expect(beat.body.state).toBe('running');

      if (owner === 'platform') {
        await tenant.admin.put(`/tenants/${tenant.id}/config/freezes`, {
          f: { ...always, mode: 'warn' },
        });
        expect((await decide(tenant)).body.decision).toBe('deny');
      }
      const until = new Date(Date.now() + 3_600_000).toISOString();
      const nameless = await client.patch(path, { f: { overrides: { now: { until } } } });
      expect(nameless.body.errors[0].path).toBe('/f/overrides/now/reason');
      await client.patch(path, { f: { overrides: { now: { until, reason: 'incident' } } } });
      expect((await decide(tenant)).body.decision).toBe('allow');
      expect((await tenant.operator.post(automations, body)).body.state).toBe('running');
      const later = new Date(Date.now() + 2 * 3_600_000).toISOString();
      expect((await decide(tenant, { at: later })).body.decision).toBe('deny');
      await client.delete(path);
    },
  );

  test('is about instances of its projects, agents and types, and others do not see it', async () => {
    const tenant = await freshTenant();
    const { id, admin } = tenant;
    await admin.put(`/tenants/${id}/projects/shop/config`, { name: 'Shop', region: 'eu' });
    await admin.put(`/tenants/${id}/services/web`, {
      service_type: 'cloud_run',
      project_id: 'shop',
    });
    await admin.put(`/tenants/${id}/services/db`, { service_type: 'cloud_sql' });
    await admin.put(`/tenants/${id}/config/freezes`, {
      shop: { ...always, match: { project_ids: ['shop'] } },
      sql: { ...always, match: { service_types: ['cloud_sql'] }, mode: 'warn' },
    });
    const web = await decide(tenant, { service_id: 'web' });
    expect([web.body.decision, web.body.reasons[0].name]).toEqual(['deny', 'shop']);
    const db = await decide(tenant, { service_id: 'db' });
    expect([db.body.decision, db.body.warnings[0].path]).toEqual(['allow', '/action']);
    expect((await decide(tenant)).body.decision).toBe('allow');
    const effective = `/tenants/${id}/config/effective?explain=true`;
    const shown = await tenant.viewer.get(`${effective}&service_id=web`);
    expect(shown.body.over_time.freezes.map((each: { name: string }) => each.name)).toEqual([
      'shop',
    ]);
    expect((await tenant.viewer.get(effective)).body.over_time).toBeUndefined();
  });
});
