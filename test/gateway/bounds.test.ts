/**
 * Bounds over REST: what they make of effective values, who sets them, and what explain says of
 * them.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  adminPassword,
  createTenant,
  createTenantWith,
  signIn,
  type Client,
  type TenantWith,
} from '../support/strata.ts';

let strata: SharedStrata;
let platform: Client;
/** One that tests share which leave nothing behind. */
let shared: TenantWith<never>;

beforeAll(async () => {
  strata = await sharedStrata();
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  shared = await createTenantWith(strata.url, platform, 'Bound by nothing');
});

let tenants = 0;
function freshTenant(): Promise<TenantWith<'viewer'>> {
  tenants += 1;
  return createTenantWith(strata.url, platform, `Bound ${tenants}`, ['viewer']);
}
const effective = async (tenant: TenantWith<'viewer'>, query = '') =>
  (await tenant.viewer.get(`/tenants/${tenant.id}/config/effective?explain=true&${query}`)).body;

/** Bounds of the platform for as long as `work` takes, because they reach every tenant. */
async function withPlatformBounds(bounds: object, work: () => Promise<void>): Promise<void> {
  const put = await platform.put('/config/bounds', bounds);
  expect([put.status, put.body]).toEqual([201, bounds]);
  try {
    await work();
  } finally {
    expect((await platform.delete('/config/bounds')).status).toBe(204);
  }
}

describe('the emergency stop', () => {
  const stop = { automation_enabled: { const: false, reason: 'incident 7' } };

  test.each(['platform', 'tenant'] as const)(
    'of the %s is one PATCH, holds over an instance that says true, and is undone by DELETE',
    async (by) => {
      const tenant = await freshTenant();
      const { id, admin } = tenant;
      const path = by === 'platform' ? '/config/bounds' : `/tenants/${id}/config/bounds`;
      const client = by === 'platform' ? platform : admin;
      await admin.put(`/tenants/${id}/services/web`, {
        service_type: 'cloud_run',
        automation_enabled: true,
      });
      expect((await client.get(path)).status).toBe(404);
      const patched = await client.patch(path, stop);
      expect([patched.status, patched.body]).toEqual([200, stop]);
      const { values, enforced, explain } = await effective(tenant, 'service_id=web');
      expect([values.automation_enabled, enforced]).toEqual([false, ['automation_enabled']]);
      expect(explain.automation_enabled).toEqual({
        value: false,
        layer: 'bounds',
        source: by === 'platform' ? 'bounds_platform' : `bounds_${id}`,
        path: '/automation_enabled',
        revision: Number(patched.headers.get('x-config-revision')),
        updated_by: patched.headers.get('x-updated-by'),
        updated_by_name: by === 'platform' ? 'Platform administrator' : tenant.emails.tenant_admin,
        updated_at: expect.stringMatching(/Z$/),
        shadowed: [
          { layer: 'service_instance', value: true, path: '/automation_enabled' },
          { layer: 'tenant_risk', value: true, path: '/global_settings/automation_enabled' },
          { layer: 'env', value: true, path: '/automation_enabled' },
        ].map((each) => expect.objectContaining(each)),
        enforced: {
          by,
          rule: stop.automation_enabled,
          revision: Number(patched.headers.get('x-config-revision')),
          asked: { layer: 'service_instance', value: true },
        },
      });
      expect((await client.delete(path)).status).toBe(204);
      const after = await effective(tenant, 'service_id=web');
      expect([after.values.automation_enabled, after.enforced]).toEqual([true, []]);
    },
  );

  test('denies whatever automation asks for', async () => {
    const { id, admin, viewer } = await freshTenant();
    await admin.put(`/tenants/${id}/services/web`, {
      service_type: 'cloud_run',
      automation_enabled: true,
    });
    const intent = { action: 'restart', risk_level: 'low', service_id: 'web' };
    const ask = async () => (await viewer.post(`/tenants/${id}/decide`, intent)).body;
    expect((await ask()).decision).toBe('allow');
    const stopped = await admin.patch(`/tenants/${id}/config/bounds`, stop);
    expect(await ask()).toMatchObject({
      decision: 'deny',
      reasons: [
        {
          rule: 'automation_enabled',
          limit: false,
          layer: 'bounds',
          source: `bounds_${id}`,
          revision: Number(stopped.headers.get('x-config-revision')),
        },
      ],
    });
    await admin.delete(`/tenants/${id}/config/bounds`);
    expect((await ask()).decision).toBe('allow');
  });

  test('holds for every agent type in /configurations/, too', async () => {
    const { id, admin } = await freshTenant();
    await admin.put(`/tenants/${id}/config/agents/scaler`, {});
    await admin.patch(`/tenants/${id}/config/bounds`, stop);
    const { body } = await admin.get('/configurations/');
    expect(body.configurations.scaler.automation_enabled).toBe(false);
  });
});

describe('a resource like any other', () => {
  test('a tenant has it with entity tag, dry run, history, rollback and as_of', async () => {
    const name = 'Bound with operator';
    const { id, admin, operator, viewer } = await createTenant(strata.url, platform, name);
    const path = `/tenants/${id}/config/bounds`;
    const first = { max_concurrent_automations: { maximum: 3 } };
    const tried = await admin.put(`${path}?dry_run=true`, first);
    expect(tried.body).toEqual({
      dry_run: true,
      changes: [{ path: '/max_concurrent_automations', after: first.max_concurrent_automations }],
      invalidates: [`bounds_${id}`],
    });
    const put = await admin.put(path, first, { 'x-change-reason': 'careful' });
    expect([put.status, put.headers.get('etag')]).toEqual([201, '"2"']);
    expect((await operator.get(path)).body).toEqual(first);
    expect((await viewer.get(path)).status).toBe(403);
    expect((await operator.patch(path, first)).status).toBe(403);
    const late = await admin.put(path, {}, { 'if-match': '"1"' });
    expect(late.status).toBe(412);

    await admin.patch(path, { max_concurrent_automations: { maximum: 2 } });
    const read = async (query: string) =>
      (await admin.get(`/tenants/${id}/config/effective${query}`)).body.values
        .max_concurrent_automations;
    expect([await read(''), await read('?as_of=2'), await read('?as_of=1')]).toEqual([2, 3, 5]);
    const { items } = (await admin.get(`/tenants/${id}/config/history?config_type=bounds_config`))
      .body;
    expect(
      items.map(({ action, reason }: { action: string; reason: string }) => [action, reason]),
    ).toEqual([
      ['update', null],
      ['create', 'careful'],
    ]);
    const back = await admin.post(`/tenants/${id}/config/rollback`, { revision: 2 });
    expect([back.status, back.body]).toEqual([200, first]);
    expect(await read('')).toBe(3);
  });

  test.each<[string, object, string]>([
    [
      'limits of what is no number',
      { automation_enabled: { maximum: 1 } },
      '/automation_enabled/maximum',
    ],
    [
      'fractions of whole numbers',
      { max_concurrent_automations: { maximum: 2.5 } },
      '/max_concurrent_automations/maximum',
    ],
    ['no keyword', { a: { reason: 'x' } }, '/a'],
    ['another keyword', { a: { max: 1 } }, '/a/max'],
    [
      'an unknown service type',
      { a: { const: 1, service_types: ['cloudrun'] } },
      '/a/service_types/0',
    ],
  ])('refuses %s, from both', async (_what, body, path) => {
    const { id, admin } = shared;
    const answers = [
      await platform.put('/config/bounds', body),
      await admin.patch(`/tenants/${id}/config/bounds`, body),
    ];
    for (const answer of answers)
      expect([answer.status, answer.body.errors?.[0]?.path]).toEqual([422, path]);
  });
});

test('the platform comes first: a contradiction is refused, and one that arises later yields', async () => {
  const tenant = await freshTenant();
  const { id, admin } = tenant;
  const path = `/tenants/${id}/config/bounds`;
  await admin.put(path, { max_resource_scaling: { minimum: 6 } });
  expect((await effective(tenant)).values.max_resource_scaling).toBe(6);
  await withPlatformBounds({ max_resource_scaling: { maximum: 4 } }, async () => {
    const { values, explain } = await effective(tenant);
    expect(values.max_resource_scaling).toBe(3);
    expect(explain.max_resource_scaling.enforced).toBeUndefined();
    const again = await admin.put(path, { max_resource_scaling: { minimum: 5 } });
    expect([again.status, again.body.errors]).toEqual([
      422,
      [
        {
          path: '/max_resource_scaling',
          message: expect.stringMatching(/contradicts the guardrail of the platform.*maximum 4/),
        },
      ],
    ]);
    expect((await admin.patch(path, { cost_band: { const: 'a' } })).status).toBe(200);
  });
  expect((await effective(tenant)).values.max_resource_scaling).toBe(6);
});

test('bounds for a service type, pairs in order, and a lowered limit hold for what an instance says', async () => {
  const tenant = await freshTenant();
  const { id, admin } = tenant;
  await admin.put(`/tenants/${id}/services/web`, {
    service_type: 'cloud_sql',
    min_instances: 7,
    max_instances: 9,
  });
  await admin.put(`/tenants/${id}/services/other`, {
    service_type: 'cloud_run',
    min_instances: 7,
    max_instances: 9,
  });
  const instances = async (service: string) => {
    const { values, explain } = await effective(tenant, `service_id=${service}`);
    return [values.min_instances, values.max_instances, explain.max_instances.enforced?.by];
  };
  await withPlatformBounds(
    { max_instances: { maximum: 5, service_types: ['cloud_sql'] } },
    async () => {
      expect(await instances('web')).toEqual([5, 5, 'platform']);
      expect(await instances('other')).toEqual([7, 9, undefined]);
    },
  );
  const limits = { scaling_limits: { max_instances: 6 } };
  await platform.patch('/config/service-types/cloud_sql/default', limits);
  expect(await instances('web')).toEqual([6, 6, 'service_type']);
  await platform.patch('/config/service-types/cloud_sql/default', {
    scaling_limits: { max_instances: 10 },
  });
  expect(await instances('web')).toEqual([7, 9, undefined]);
});

test('explain names the limit that put a value there, also where its pair has it', async () => {
  const tenant = await freshTenant();
  const { id, admin } = tenant;
  const bounds = `/tenants/${id}/config/bounds`;
  const { headers } = await admin.put(bounds, { max_cost_impact_approval: { maximum: 10 } });
  await admin.patch(bounds, { max_cost_impact_auto: { maximum: 14 } });
  await admin.patch(bounds, { max_cost_impact_auto: null });
  expect((await effective(tenant)).explain.max_cost_impact_auto).toMatchObject({
    value: 10,
    layer: 'bounds',
    path: '/max_cost_impact_approval',
    revision: Number(headers.get('x-config-revision')),
  });
  const type = '/config/service-types/kubernetes_engine/default';
  await admin.put(`/tenants/${id}/services/web`, {
    service_type: 'kubernetes_engine',
    min_instances: 7,
  });
  const { scaling_limits: before } = (await platform.get(type)).body;
  await platform.patch(type, { scaling_limits: { max_instances: 6 } });
  const { min_instances: held } = (await effective(tenant, 'service_id=web')).explain;
  expect([held.value, held.path]).toEqual([6, '/scaling_limits/max_instances']);
  await platform.patch(type, { scaling_limits: before });
});

test('explain shows what an override of the service type shadows, and what warns', async () => {
  const tenant = await freshTenant();
  const { id, admin } = tenant;
  await admin.patch(`/tenants/${id}/config/risk`, {
    service_overrides: { cloud_run: { max_cost_impact_auto: 40 } },
  });
  const rule = { maximum: 20, mode: 'warn' };
  await admin.put(`/tenants/${id}/config/bounds`, { max_cost_impact_auto: rule });
  const { values, enforced, explain } = await effective(tenant, 'service_type=cloud_run');
  expect([values.max_cost_impact_auto, enforced]).toEqual([40, []]);
  expect(explain.max_cost_impact_auto).toMatchObject({
    value: 40,
    layer: 'tenant_risk',
    path: '/service_overrides/cloud_run/max_cost_impact_auto',
    shadowed: [
      { layer: 'tenant_risk', value: 15, path: '/global_settings/max_cost_impact_auto' },
      { layer: 'env', value: 15, path: '/max_cost_impact_auto' },
    ],
    warned: [{ by: 'tenant', rule }],
  });
});

describe('a write outside of a bound', () => {
  const setBounds = async (tenant: TenantWith<never>, bounds: object) => {
    const put = await tenant.admin.put(`/tenants/${tenant.id}/config/bounds`, bounds);
    expect(put.status).toBe(201);
  };
  const rule = { maximum: 20, reason: 'the budget of this year' };

  test.each(['platform', 'tenant'] as const)(
    'of the %s is refused with path, rule and owner, in each layer of the tenant',
    async (by) => {
      const tenant = await freshTenant();
      const { id, admin } = tenant;
      const bounds = {
        max_cost_impact_auto: rule,
        default_cpu: { enum: ['1', '2'] },
        monitoring_enabled: { const: true, service_types: ['cloud_run'] },
      };
      const check = async (): Promise<void> => {
        const expected = [
          [
            await admin.patch(`/tenants/${id}/config/risk`, {
              global_settings: { max_cost_impact_auto: 30 },
            }),
            '/global_settings/max_cost_impact_auto',
          ],
          [
            await admin.patch(`/tenants/${id}/config/risk`, {
              service_overrides: { cloud_run: { max_cost_impact_auto: 40 } },
            }),
            '/service_overrides/cloud_run/max_cost_impact_auto',
          ],
          [
            await admin.put(`/tenants/${id}/config/agents/big`, { default_cpu: '8' }),
            '/default_cpu',
          ],
          [
            await admin.put(`/tenants/${id}/services/web`, {
              service_type: 'cloud_run',
              monitoring_enabled: false,
            }),
            '/monitoring_enabled',
          ],
        ] as const;
        for (const [answer, path] of expected)
          expect([
            answer.status,
            answer.body.errors?.map((each: { path: string }) => each.path),
          ]).toEqual([422, [path]]);
        const setBy = by === 'platform' ? '' : `, set by ${tenant.emails.tenant_admin}`;
        expect(expected[0][0].body.errors[0].message).toMatch(
          new RegExp(
            `^is 30; the guardrail of the ${by} on max_cost_impact_auto is maximum 20 \\(revision \\d+${setBy}\\): the budget of this year$`,
          ),
        );
        const elsewhere = await admin.put(`/tenants/${id}/services/other`, {
          service_type: 'cloud_sql',
          monitoring_enabled: false,
        });
        expect(elsewhere.status).toBe(201);
      };
      if (by === 'platform') return withPlatformBounds(bounds, check);
      await setBounds(tenant, bounds);
      await check();
    },
  );

  test("is refused for what it changes: what was there before stands in no one's way", async () => {
    const tenant = await freshTenant();
    const { id, admin } = tenant;
    const risk = `/tenants/${id}/config/risk`;
    await admin.patch(risk, { global_settings: { max_cost_impact_auto: 30 } });
    await setBounds(tenant, { max_cost_impact_auto: rule });
    const unrelated = await admin.patch(risk, { global_settings: { business_hours_only: true } });
    expect([unrelated.status, unrelated.body.global_settings.max_cost_impact_auto]).toEqual([
      200, 30,
    ]);
    expect((await effective(tenant)).values.max_cost_impact_auto).toBe(20);
    const worse = await admin.patch(risk, { global_settings: { max_cost_impact_auto: 31 } });
    expect(worse.status).toBe(422);
    await admin.patch(risk, { global_settings: { max_cost_impact_auto: 10 } });
    const back = await admin.post(`/tenants/${id}/config/rollback`, { revision: 2 });
    expect([back.status, back.body.errors[0].path]).toEqual([
      422,
      '/global_settings/max_cost_impact_auto',
    ]);
  });

  test('passes where the bound warns, and is told so: in a header, and by a dry run in words', async () => {
    const tenant = await freshTenant();
    const { id, admin } = tenant;
    await setBounds(tenant, { max_cost_impact_auto: { ...rule, mode: 'warn' } });
    const change = { global_settings: { max_cost_impact_auto: 30 } };
    const tried = await admin.patch(`/tenants/${id}/config/risk?dry_run=true`, change);
    const path = '/global_settings/max_cost_impact_auto';
    const message = expect.stringMatching(/^is 30; the guardrail of the tenant .* maximum 20/);
    expect(tried.body.warnings).toEqual([{ path, message }]);
    const written = await admin.patch(`/tenants/${id}/config/risk`, change);
    expect([written.status, written.headers.get('x-config-warnings')]).toEqual([200, path]);
    expect(written.body).not.toHaveProperty('warnings');
    const other = await admin.patch(`/tenants/${id}/config/risk`, {
      global_settings: { business_hours_only: true },
    });
    expect(other.headers.get('x-config-warnings')).toBeNull();
  });

  test('limits of a service type that were lowered refuse new values, and no unrelated change', async () => {
    const { id, admin } = await freshTenant();
    const service = `/tenants/${id}/services/web`;
    await admin.put(service, { service_type: 'cloud_functions', max_instances: 50 });
    const type = '/config/service-types/cloud_functions/default';
    await platform.patch(type, { scaling_limits: { max_instances: 20 } });
    expect((await admin.patch(service, { monitoring_enabled: true })).status).toBe(200);
    const raised = await admin.patch(service, { max_instances: 40 });
    expect([raised.status, raised.body.errors[0].path]).toEqual([422, '/max_instances']);
    await platform.patch(type, { scaling_limits: { max_instances: 100 } });
  });

  test('an override does not give a known key another type', async () => {
    const { id, admin } = shared;
    const answer = await admin.patch(`/tenants/${id}/config/risk`, {
      service_overrides: { cloud_run: { http_client_timeout_seconds: 'forever' } },
    });
    expect([answer.status, answer.body.errors]).toEqual([
      422,
      [
        {
          path: '/service_overrides/cloud_run/http_client_timeout_seconds',
          message: 'must be integer',
        },
      ],
    ]);
  });
});

describe('a known key keeps its type in the documents of the platform', () => {
  const entry = '/config/global/max_instances';
  const type = '/config/service-types/kept/default';

  test.each<[string, string, object, string, string]>([
    ['a private entry', entry, { config_value: 'many' }, '/config_value', 'must be integer'],
    [
      'settings of a type',
      type,
      { default_settings: { monitoring_enabled: 'on', own: 'on' } },
      '/default_settings/monitoring_enabled',
      'must be boolean',
    ],
    [
      'business hours that are none',
      type,
      {
        default_settings: {
          business_hours: { days: ['mon'], start: '9', end: '17:00', timezone: 'UTC' },
        },
      },
      '/default_settings/business_hours/start',
      '',
    ],
  ])('%s', async (_what, path, body, at, message) => {
    const { status, body: answer } = await platform.put(path, body);
    const problem = { path: at, message: expect.stringContaining(message) };
    expect([status, answer.errors]).toEqual([422, [problem]]);
  });

  test('for what a write changes, a rollback included; null says that there is no value', async () => {
    expect((await platform.put(entry, { config_value: null })).status).toBe(201);
    expect((await platform.put(type, { default_settings: { max_instances: null } })).status).toBe(
      201,
    );
    // As a release before let them be.
    await strata.database.query(
      `UPDATE global_config.global_configurations SET config_value = '"many"' WHERE config_key = 'max_instances'`,
    );
    await strata.database.query(
      `UPDATE global_config.service_type_configurations SET default_settings = '{"max_instances": "many"}'
       WHERE service_type = 'kept'`,
    );
    expect((await platform.patch(entry, { requires_restart: true })).status).toBe(200);
    expect((await platform.patch(entry, { is_public: true })).status).toBe(422);
    const settings = { default_settings: { own: 1 } };
    const patched = await platform.patch(type, settings);
    expect([patched.status, patched.body.default_settings]).toEqual([
      200,
      { max_instances: 'many', own: 1 },
    ]);
    expect((await platform.patch(type, { default_settings: { max_instances: 4 } })).status).toBe(
      200,
    );
    const back = await platform.post('/config/rollback', {
      revision: Number(patched.headers.get('x-config-revision')),
    });
    expect([back.status, back.body.errors[0].path]).toEqual([
      422,
      '/default_settings/max_instances',
    ]);
    for (const path of [entry, type]) await platform.delete(path);
  });
});

type Listed = Record<'tenant_id' | 'path' | 'by' | 'problem', string>;

/** All pages of a list of violations, of which the tenants of other files have some, too. */
async function walk(client: Client, path: string, limit: number): Promise<Listed[]> {
  const items: Listed[] = [];
  let cursor = '';
  for (let pages = 0; pages < 1000; pages += 1) {
    const { status, body } = await client.get(`${path}?limit=${limit}${cursor}`);
    expect([status, body.items.length <= limit]).toEqual([200, true]);
    items.push(...body.items);
    if (body.next_cursor === null) return items;
    cursor = `&cursor=${body.next_cursor}`;
  }
  throw new Error('the list does not end');
}

describe('what is stored outside of bounds', () => {
  const shown = ({ tenant_id, path, by, problem }: Listed) => [tenant_id, path, by, problem];

  test('is listed for the platform over all tenants, and for a tenant its own with its own bounds', async () => {
    const one = await freshTenant();
    const two = await freshTenant();
    for (const { id, admin } of [one, two]) {
      await admin.patch(`/tenants/${id}/config/risk`, {
        global_settings: { max_cost_impact_auto: 31 },
        service_overrides: { cloud_run: { max_cost_impact_auto: 32 }, cloud_sql: { band: 'x' } },
      });
      await admin.put(`/tenants/${id}/config/agents/big`, { default_cpu: '8' });
      await admin.put(`/tenants/${id}/services/web`, {
        service_type: 'cloud_run',
        max_instances: 60,
        monitoring_enabled: true,
      });
    }
    await two.admin.put(`/tenants/${two.id}/config/bounds`, {
      max_cost_impact_auto: { minimum: 30 },
      monitoring_enabled: { const: false, mode: 'warn' },
    });
    const type = '/config/service-types/cloud_run/default';
    await platform.patch(type, { scaling_limits: { max_instances: 50 } });
    const bounds = { max_cost_impact_auto: { maximum: 20 }, default_cpu: { enum: ['1'] } };
    await withPlatformBounds(bounds, async () => {
      const listed = await walk(platform, '/config/bounds/violations', 200);
      const ours = listed.filter(({ tenant_id }) => [one.id, two.id].includes(tenant_id));
      const ofBoth = (path: string, by: string) =>
        [one.id, two.id].map((id) => [id, path, by, 'outside']);
      const expected = [
        ...ofBoth('/global_settings/max_cost_impact_auto', 'platform'),
        ...ofBoth('/service_overrides/cloud_run/max_cost_impact_auto', 'platform'),
        ...ofBoth('/default_cpu', 'platform'),
        ...ofBoth('/max_instances', 'service_type'),
        [two.id, '/max_cost_impact_auto', 'platform', 'contradicts'],
      ];
      expect(ours.map(shown).toSorted()).toEqual(expected.toSorted());
      expect(ours.find(({ path }) => path === '/default_cpu')).toEqual({
        tenant_id: expect.any(String),
        tenant_name: expect.stringMatching(/^Bound \d+$/),
        config_type: 'agent_config',
        resource_id: 'big',
        source: expect.stringMatching(/^agent_config_[0-9a-f-]{36}_big$/),
        path: '/default_cpu',
        key: 'default_cpu',
        service_type: null,
        value: '8',
        by: 'platform',
        rule: { enum: ['1'] },
        revision: expect.any(Number),
        problem: 'outside',
      });
      for (const limit of [1, 3])
        expect(await walk(platform, '/config/bounds/violations', limit)).toEqual(listed);

      const own = await walk(two.admin, `/tenants/${two.id}/config/bounds/violations`, 2);
      const ofTwo = expected.filter(([id]) => id === two.id);
      expect(own.map(shown).toSorted()).toEqual(
        [...ofTwo, [two.id, '/monitoring_enabled', 'tenant', 'outside']].toSorted(),
      );
    });
    await platform.patch(type, { scaling_limits: { max_instances: 100 } });
    expect(await walk(one.admin, `/tenants/${one.id}/config/bounds/violations`, 50)).toEqual([]);
  });

  test.each(['x', 'OQ', Buffer.from('0>x/1/0').toString('base64url')])(
    'takes no cursor of its own making: %s',
    async (cursor) => {
      const answer = await platform.get(`/config/bounds/violations?cursor=${cursor}`);
      expect([answer.status, answer.body.errors[0].path]).toEqual([422, '/cursor']);
    },
  );
});

test('bounds of a tenant that leave a pair no order under those of the platform are listed', async () => {
  const tenant = await freshTenant();
  const { id, admin } = tenant;
  const path = `/tenants/${id}/config/bounds`;
  const own = { max_instances: { maximum: 3 }, min_instances: { maximum: 10 }, own: { const: 1 } };
  expect((await admin.put(path, own)).status).toBe(201);
  await admin.put(`/tenants/${id}/services/web`, { service_type: 'cloud_run', min_instances: 2 });
  const listed = async (client: Client, list: string) =>
    (await walk(client, `${list}/violations`, 200)).filter(
      (item) => item.tenant_id === id && item.problem === 'contradicts',
    );
  expect(await listed(admin, path)).toEqual([]);
  const rule = { minimum: 5, service_types: ['cloud_run'] };
  await withPlatformBounds({ min_instances: rule }, async () => {
    const { values } = await effective(tenant, 'service_id=web');
    expect(values.min_instances).toBe(5);
    const yielding = (key: string, value: object) => ({
      tenant_id: id,
      tenant_name: expect.stringMatching(/^Bound/),
      config_type: 'bounds_config',
      resource_id: id,
      source: `bounds_${id}`,
      path: `/${key}`,
      key,
      service_type: 'cloud_run',
      value,
      by: 'platform',
      rule,
      revision: expect.any(Number),
      problem: 'contradicts',
    });
    const expected = [
      yielding('min_instances', own.min_instances),
      yielding('max_instances', own.max_instances),
    ];
    expect(await listed(admin, path)).toEqual(expected);
    expect(await listed(platform, '/config/bounds')).toEqual(expected);
  });
  expect(await listed(admin, path)).toEqual([]);
});
