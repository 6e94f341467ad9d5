/** Budgets and freezes over REST, as documents and as what automation is decided by. */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../support/cluster.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  type Client,
  type TenantFixture,
} from '../support/strata.ts';

let strata: SharedStrata;
let platform: Client;

beforeAll(async () => {
  strata = await sharedStrata();
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
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
  let tenant: TenantFixture;
  beforeAll(async () => {
    tenant = await freshTenant();
  });

  test.each(['tenant', 'platform'] as const)(
    'of the %s are a document with revisions, trials, history and a way back',
    async (owner) => {
      const client = owner === 'tenant' ? tenant.admin : platform;
      const { id } = tenant;
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
      // A platform admin sees the events of tenants as well.
      const whose = owner === 'tenant' ? id : null;
      await eventually(async () => {
        const { body } = await client.get(events);
        const own = body.items.filter((each: { tenant_id: unknown }) => each.tenant_id === whose);
        expect(own.length).toBe(1);
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
  // Of all these tests, each of which leaves no document behind.
  let tenant: TenantFixture;
  beforeAll(async () => {
    tenant = await freshTenant();
  });

  test.each([
    ['budgets', { b: { ...budget, amount: '-5' } }, '/b/amount'],
    ['budgets', { b: { ...budget, amount: '1000000000000' } }, '/b/amount'],
    ['budgets', { b: { ...budget, amount: 'NaN' } }, '/b/amount'],
    ['budgets', { b: { ...budget, currency: 'euro' } }, '/b/currency'],
    ['budgets', { b: { ...budget, timezone: 'Nowhere' } }, '/b/timezone'],
    ['budgets', { a: budget, b: { ...budget, currency: 'USD' } }, '/b/currency'],
    ['freezes', { f: { during: [{ timezone: 'UTC' }] } }, '/f/during/0'],
    [
      'freezes',
      { f: { during: [{ dates: ['12-25'], timezone: 'Nowhere' }] } },
      '/f/during/0/timezone',
    ],
    [
      'freezes',
      { f: { during: [{ from: '2090-01-01T00:00', until: '2090-01-01T00:00', timezone: 'UTC' }] } },
      '/f/during/0/until',
    ],
    [
      'freezes',
      { f: { during: [{ from: '2020-01-01T00:00', until: '2020-01-02T00:00', timezone: 'UTC' }] } },
      '/f/during/0/until',
    ],
  ])('%s %j', async (kind, document, path) => {
    const { id, admin } = tenant;
    for (const [client, url] of [
      [admin, `/tenants/${id}/config/${kind}`],
      [platform, `/config/${kind}`],
    ] as const) {
      const { status, body } = await client.put(url, document);
      expect([status, body.errors[0].path]).toEqual([422, path]);
      expect(body.errors[0].message).not.toContain('pattern');
    }
  });

  test('a cost that no budget could count', async () => {
    const { id, operator } = tenant;
    const automations = `/tenants/${id}/automations`;
    const intent = { action: 'scale', risk_level: 'low' };
    for (const cost of [1e12, 1e308, -1]) {
      const started = await operator.post(automations, { ...intent, cost_impact: cost });
      expect([started.status, started.body.errors[0].path]).toEqual([422, '/cost_impact']);
    }
    const { body } = await operator.post(automations, intent);
    const end = { outcome: 'done', actual_cost: 1e308 };
    const ended = await operator.post(`${automations}/${body.id}/finish`, end);
    expect([ended.status, ended.body.errors[0]]).toEqual([
      422,
      { path: '/actual_cost', message: 'must be <= 999999999999' },
    ]);
  });

  test('a thousand budgets, and it is said how many there may be', async () => {
    const { id, admin } = tenant;
    const names = Array.from({ length: 1000 }, (_each, index) => [`b${index}`, budget]);
    const url = `/tenants/${id}/config/budgets`;
    const { status, body } = await admin.put(url, Object.fromEntries(names));
    expect([status, body.errors]).toEqual([
      422,
      [{ path: '', message: expect.stringContaining('100') }],
    ]);
  });

  test("a currency that is not the platform's", async () => {
    const { id, admin } = tenant;
    await platform.put('/config/budgets', { p: { ...budget, amount: '1000000' } });
    const refused = await admin.put(`/tenants/${id}/config/budgets`, {
      t: { ...budget, currency: 'USD' },
    });
    expect([refused.status, refused.body.errors[0].path]).toEqual([422, '/t/currency']);
    await platform.delete('/config/budgets');
  });

  test('a currency that the platform gets after tenants have others is said with each decision', async () => {
    const { id, admin, operator } = tenant;
    await admin.put(`/tenants/${id}/config/budgets`, { t: { ...budget, currency: 'USD' } });
    const intent = { action: 'scale', risk_level: 'low', cost_impact: 1 };
    const decide = () => operator.post(`/tenants/${id}/decide`, intent);
    expect((await decide()).body.warnings).toBeUndefined();
    await platform.put('/config/budgets', { p: { ...budget, amount: '1000000' } });
    const mixed = { path: '/cost_impact', message: expect.stringContaining('EUR and USD') };
    expect((await decide()).body.warnings).toEqual([mixed]);
    const { body } = await operator.post(`/tenants/${id}/automations`, intent);
    expect([body.state, body.warnings]).toEqual(['running', [mixed]]);
    await platform.delete('/config/budgets');
    await admin.delete(`/tenants/${id}/config/budgets`);
  });

  test('of two currencies that are written at once one', async () => {
    const { id, admin } = tenant;
    const own = `/tenants/${id}/config/budgets`;
    const project = `/tenants/${id}/projects/shop/config`;
    const euros = { budget: { amount: 10, currency: 'EUR' }, enforce_budget: true };
    for (let round = 0; round < 10; round += 1) {
      const writes = [
        () => admin.put(own, { t: { ...budget, currency: 'USD' } }),
        () => admin.put(project, euros),
      ];
      // Whichever is judged first, the other one is refused.
      const inTurn = round % 2 === 0 ? writes : writes.toReversed();
      const answers = await Promise.all(inTurn.map((write) => write()));
      expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 422]);
      await admin.delete(own);
      await admin.delete(project);
    }
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

describe('what an instance and its project say', () => {
  let tenant: TenantFixture;
  const decide = (more: object = {}) =>
    tenant.operator.post(`/tenants/${tenant.id}/decide`, {
      action: 'scale',
      risk_level: 'low',
      service_id: 'web',
      ...more,
    });
  const project = (body: object) =>
    tenant.admin.put(`/tenants/${tenant.id}/projects/shop/config`, body);
  beforeAll(async () => {
    tenant = await freshTenant();
    await project({ environment: 'production', budget: { amount: 10.5, currency: 'EUR' } });
    const web = { service_type: 'cloud_run', project_id: 'shop' };
    await tenant.admin.put(`/tenants/${tenant.id}/services/web`, web);
  });

  test('the budget of a project binds its instances, once it is to be enforced', async () => {
    const automation = { action: 'scale', risk_level: 'low', service_id: 'web' };
    const start = (cost: number) =>
      tenant.operator.post(`/tenants/${tenant.id}/automations`, {
        ...automation,
        cost_impact: cost,
      });
    expect((await start(11)).body.state).toBe('running');
    const budgets = { t: { ...budget, currency: 'USD', match: { actions: ['other'] } } };
    await tenant.admin.put(`/tenants/${tenant.id}/config/budgets`, budgets);
    const enforced = {
      environment: 'production',
      budget: { amount: 10.5, currency: 'EUR' },
      enforce_budget: true,
    };
    const mixed = await project(enforced);
    expect([mixed.status, mixed.body.errors[0].path]).toEqual([422, '/budget/currency']);
    await tenant.admin.delete(`/tenants/${tenant.id}/config/budgets`);
    expect((await project(enforced)).status).toBe(200);
    const other = await tenant.admin.put(`/tenants/${tenant.id}/config/budgets`, budgets);
    expect([other.status, other.body.errors[0].path]).toEqual([422, '/t/currency']);

    // By the write that has just been answered.
    const denied = await start(10.51);
    expect([denied.body.state, denied.body.reasons[0]]).toMatchObject([
      'denied',
      {
        rule: 'budget_exceeded',
        name: 'shop',
        limit: '10.5',
        source: `project_config_${tenant.id}_shop`,
      },
    ]);
    expect((await start(10)).body.state).toBe('running');
    const usage = await tenant.operator.get(`/tenants/${tenant.id}/budgets/usage`);
    expect(usage.body.items).toMatchObject([
      { by: 'project', name: 'shop', held: '10', remaining: '0.5' },
    ]);
    const shown = await decide({ cost_impact: 1 });
    expect([shown.body.decision, shown.body.budgets[0].remaining]).toEqual(['deny', '0.5']);
    // Their periods reach beyond the years that a timestamp has.
    for (const at of ['0001-01-01T00:00:00Z', '9999-12-31T23:59:59Z'])
      expect((await decide({ cost_impact: 1, at })).body.decision).toBe('allow');
    expect((await decide({ service_id: undefined, cost_impact: 11 })).body.decision).toBe('allow');
    await project({ environment: 'production' });
    expect((await decide({ cost_impact: 11 })).body.decision).toBe('allow');
  });

  test('who is no administrator does not move an instance out of the limits of its project', async () => {
    const path = `/tenants/${tenant.id}/services/web`;
    for (const to of ['other', null]) {
      const moved = await tenant.operator.patch(path, { project_id: to });
      expect([moved.status, moved.body.detail.code]).toEqual([403, 'insufficient_role']);
    }
    const own = { service_type: 'cloud_run', project_id: 'shop' };
    const made = await tenant.operator.put(`/tenants/${tenant.id}/services/mine`, own);
    expect(made.status).toBe(201);
    expect((await tenant.operator.patch(path, { min_instances: 1 })).status).toBe(200);
    expect((await tenant.admin.patch(path, { project_id: 'other' })).status).toBe(200);
    expect((await tenant.admin.patch(path, { project_id: 'shop' })).status).toBe(200);
  });

  test('freezes name the environment of its project', async () => {
    const path = `/tenants/${tenant.id}/config/freezes`;
    await tenant.admin.put(path, { f: { ...always, match: { environments: ['production'] } } });
    expect((await decide()).body.reasons[0]).toMatchObject({ rule: 'freeze', name: 'f' });
    await project({ environment: 'staging' });
    expect((await decide()).body.decision).toBe('allow');
    await tenant.admin.delete(path);
  });

  test('maintenance windows are the only times where it says so, and an administrator alone says it', async () => {
    const path = `/tenants/${tenant.id}/services/web`;
    const days = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];
    const nights = { days, start: '01:00', end: '03:00', timezone: 'Europe/Rome' };
    await tenant.admin.patch(path, { maintenance_windows: [nights] });
    const noon = '2030-06-03T10:00:00Z';
    const night = '2030-06-03T23:30:00Z';
    expect((await decide({ at: noon })).body.decision).toBe('allow');
    await tenant.admin.patch(path, { maintenance_windows_only: true });
    const closed = await decide({ at: noon });
    expect(closed.body).toMatchObject({
      decision: 'deny',
      reasons: [
        {
          rule: 'maintenance_windows_only',
          limit: true,
          layer: 'service_instance',
          source: `service_instance_${tenant.id}_web`,
        },
      ],
      retry_at: '2030-06-03T23:00:00.000Z',
    });
    expect((await decide({ at: night })).body.decision).toBe('allow');
    expect((await decide({ service_id: undefined, at: noon })).body.decision).toBe('allow');
    for (const looser of [
      { maintenance_windows: [{ ...nights, end: '00:59' }] },
      { maintenance_windows_only: false },
    ]) {
      const refused = await tenant.operator.patch(path, looser);
      expect([refused.status, refused.body.detail.code]).toEqual([403, 'insufficient_role']);
    }
    // Without a window there is no time.
    await tenant.admin.patch(path, { maintenance_windows: [] });
    const never = await decide({ at: night });
    expect([never.body.decision, never.body.retry_at]).toEqual(['deny', undefined]);
    await tenant.admin.patch(path, { maintenance_windows_only: null });
  });

  test('notices of its approvals go where it says', async () => {
    const { id, admin, operator } = tenant;
    await admin.put(`/tenants/${id}/config/notifications`, {
      email: { approval_recipients: ['on-call@example.com'] },
      webhook: { url: 'https://hooks.example/h' },
    });
    const channelsOf = async (names: string[]): Promise<string[]> => {
      await admin.patch(`/tenants/${id}/services/web`, { notification_channels: names });
      const approval = await operator.post(`/tenants/${id}/approvals`, {
        action: 'scale',
        risk_level: 'low',
        title: 'Scale up',
        service_id: 'web',
      });
      const of = `/tenants/${id}/notifications/deliveries?approval_id=${approval.body.id}`;
      const { items } = (await admin.get(of)).body;
      return items.map((each: { channel: string }) => each.channel).toSorted();
    };
    expect(await channelsOf(['sre', 'email'])).toEqual(['email']);
    expect(await channelsOf(['sre'])).toEqual(['email', 'webhook']);
    // Where nothing is configured that it names, everybody hears.
    expect(await channelsOf(['chat'])).toEqual(['email', 'webhook']);
  });
});
