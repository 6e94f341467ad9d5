/**
 * A plan says what applying it does: held against PLAN_TENANTS random tenants, read before and after;
 * 10 here, more in the soak.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { configResolverService } from '../../services/config-resolver/config-resolver.service.ts';
import { globalConfigService } from '../../services/global-config/global-config.service.ts';
import { globalConfigSchema } from '../../services/global-config/schema.ts';
import { tenantConfigSchema } from '../../services/tenant-config/schema.ts';
import { tenantConfigService } from '../../services/tenant-config/tenant-config.service.ts';
import { serviceCaller, type Caller } from '../../shared/access.ts';
import { createFeed } from '../../shared/coherence/feed.ts';
import { createNode, type Node } from '../../shared/node/broker.ts';
import { callAs } from '../../shared/contract-runtime/request.ts';
import { commitSchema } from '../../shared/commits/schema.ts';
import type { Violation } from '../../shared/contracts/bounds.ts';
import type { ImpactContext, ImpactItem } from '../../shared/contracts/impact.ts';
import type { ActionName, ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import type { PlanItem } from '../../shared/contracts/plan.ts';
import { riskDefaults } from '../../shared/contracts/risk.ts';
import { migrate, openDatabase } from '../../shared/database/open.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import { randomFrom } from '../support/values-of-schema.ts';

const tenantCount = Number(process.env.PLAN_TENANTS ?? 10);
const types = ['cloud_run', 'cloud_functions', 'cloud_sql', 'kubernetes_engine'];
const admin: Caller = {
  type: 'user',
  id: randomUUID(),
  tenant_id: null,
  roles: [],
  platform_roles: ['platform_admin'],
};

interface Tenant {
  readonly id: string;
  readonly agents: readonly string[];
  readonly services: readonly string[];
}

let database: Database;
let tenantDb: DataSource;
let globalDb: DataSource;
let node: Node;
let tenants: readonly Tenant[];

beforeAll(async () => {
  database = await createDatabase();
  // All tenants are asked for at once: on a busy machine the last waits for long.
  const options = { url: database.url, poolSize: 4, timeoutMs: 60_000, ssl: false };
  await migrate(options, [commitSchema, tenantConfigSchema, globalConfigSchema]);
  tenantDb = await openDatabase(options, tenantConfigSchema);
  globalDb = await openDatabase(options, globalConfigSchema);
  await createFeed(globalDb).meet();
  const own = { LOG_LEVEL: 'silent', REQUEST_TIMEOUT_MS: '60000' };
  const settings = loadSettings(own, { roles: [] });
  node = createNode({ settings: liveSettings(settings, {}, []) });
  node.broker.createService(
    tenantConfigService({
      db: tenantDb,
      settings: () => settings,
      log: pino({ level: 'silent' }),
      metrics: new Registry(),
    }),
  );
  node.broker.createService(
    globalConfigService({
      db: globalDb,
      settings: () => settings,
      log: pino({ level: 'silent' }),
      metrics: new Registry(),
    }),
  );
  node.broker.createService(configResolverService({ settings: () => settings }));
  await node.broker.start();
  tenants = await randomTenants(riskDefaults(settings));
});
afterAll(async () => {
  await node?.broker.stop();
  await tenantDb?.destroy();
  await globalDb?.destroy();
  await database?.drop();
});

const call = <A extends ActionName>(
  action: A,
  params: ParamsOf<A>,
  caller: Caller = serviceCaller('gateway'),
): Promise<ResultOf<A>> => callAs(node.broker, action, params, { caller, requestId: 'r' });

const random = randomFrom(20_261_122);
const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
const upTo = (most: number): number => Math.floor(random() * (most + 1));
const perhaps = <T extends object>(chance: number, part: T): T | object =>
  random() < chance ? part : {};

async function store(table: string, tenantId: string, id: string, document: object): Promise<void> {
  await tenantDb.query(`INSERT INTO tenant_config.${table} VALUES ($1, $2, $3, 1, 'test', now())`, [
    tenantId,
    id,
    JSON.stringify(document),
  ]);
}

async function randomTenants(defaults: object): Promise<Tenant[]> {
  const made: Tenant[] = [];
  for (let each = 0; each < tenantCount; each += 1) {
    const id = randomUUID();
    await tenantDb.query(
      `INSERT INTO tenant_config.tenants VALUES ($1, $2, 'active', now(), now(), NULL, 0, 'test', now())`,
      [id, `Tenant ${each}`],
    );
    await tenantDb.query(
      `INSERT INTO tenant_config.members (tenant_id, user_id, roles, groups, status, added_at)
       VALUES ($1, $2, '{tenant_admin}', '{}', 'active', now())`,
      [id, admin.id],
    );
    await tenantDb.query('INSERT INTO strata.revisions VALUES ($1, 1)', [`tenant:${id}`]);
    await store('tenant_risk_configurations', id, id, {
      global_settings: { ...defaults, max_cost_impact_auto: upTo(20) },
      service_overrides: Object.fromEntries(
        types.map((type) => [
          type,
          {
            ...perhaps(0.2, { max_cost_impact_auto: upTo(30), max_cost_impact_approval: 40 }),
            ...perhaps(0.3, { band: pick(['a', 'b', 'c']) }),
            ...perhaps(0.1, { automation_enabled: false }),
          },
        ]),
      ),
    });
    const agents = ['scaler', 'saver', 'healer'].slice(0, upTo(2));
    for (const agent_type of agents)
      await store('agent_configurations', id, agent_type, {
        agent_type,
        ...perhaps(0.5, { default_region: pick(['eu', 'us']) }),
        ...perhaps(0.3, { default_cpu: pick(['1', '2', '8']) }),
      });
    const services = ['web', 'db'].slice(0, upTo(2));
    for (const service_id of services)
      await store('service_configurations', id, service_id, {
        service_id,
        service_type: pick(types),
        ...perhaps(0.6, { max_instances: 6 + upTo(6) }),
        ...perhaps(0.4, { min_instances: upTo(6) }),
        ...perhaps(0.3, { automation_enabled: random() < 0.5 }),
      });
    if (random() < 0.3)
      await store('bounds', id, id, {
        ...perhaps(0.5, { max_instances: { minimum: 1 + upTo(9) } }),
        ...perhaps(0.5, { max_cost_impact_auto: { maximum: upTo(20) } }),
        ...perhaps(0.3, { band: { enum: ['a', 'z'] } }),
      });
    made.push({ id, agents, services });
  }
  return made;
}

interface Effective {
  readonly values: Readonly<Record<string, unknown>>;
  readonly enforced: readonly string[];
  readonly layers: Readonly<Record<string, string>>;
}
const nameOf = (tenantId: string, context: ImpactContext): string =>
  JSON.stringify([tenantId, context]);

async function readOne(tenantId: string, context: ImpactContext): Promise<Effective> {
  const { values, enforced, explain } = await call('config-resolver.resolve', {
    tenant_id: tenantId,
    ...context,
    explain: true,
  });
  const layers = Object.entries(explain ?? {}).map(([key, { layer }]) => [key, layer] as const);
  return { values, enforced, layers: Object.fromEntries(layers) };
}

/** Every effective configuration of every tenant, read as anybody reads it. */
async function readAll(serviceTypes: readonly string[]): Promise<Map<string, Effective>> {
  const all = new Map<string, Effective>();
  for (const { id, agents, services } of tenants) {
    const contexts: ImpactContext[] = [
      {},
      ...agents.map((agent_type) => ({ agent_type })),
      ...services.map((service_id) => ({ service_id })),
      ...serviceTypes.map((service_type) => ({ service_type })),
    ];
    const found = await Promise.all(contexts.map((context) => readOne(id, context)));
    for (const [index, context] of contexts.entries()) all.set(nameOf(id, context), found[index]!);
  }
  return all;
}

async function activeTypes(): Promise<string[]> {
  const { items } = await call('global-config.service-types.active', {});
  return items.map(({ service_type }) => service_type);
}

/** By all bounds that hold for each tenant, its own included: what its people could not write. */
async function violations(): Promise<Violation[]> {
  const ofTenants = await Promise.all(
    tenants.map(({ id }) =>
      call('tenant-config.bounds.violations.of-tenant', { tenant_id: id, limit: 200 }),
    ),
  );
  return ofTenants.flatMap(({ items }) => items).filter(({ rule }) => rule.mode !== 'warn');
}
const documentOf = ({ tenant_id, config_type, resource_id }: Violation): string =>
  [tenant_id, config_type, resource_id].join();

/**
 * All pages of a plan. Those whose time was over before all tenants were counted come first, and
 * then each has the same counts.
 */
async function planAll(items: PlanItem[], limit = 200) {
  const nextPage = (cursor?: string) =>
    call('global-config.plan', { body: { items, limit, ...(cursor && { cursor }) } }, admin);
  let page = await nextPage();
  const found: ImpactItem[] = [...page.impact.items];
  async function goOn(cursor: string): Promise<void> {
    page = await nextPage(cursor);
    found.push(...page.impact.items);
  }
  while (!page.complete) await goOn(page.impact.next_cursor!);
  const first = page;
  while (page.impact.next_cursor !== null) {
    await goOn(page.impact.next_cursor);
    expect(page.impact.tenants).toEqual(first.impact.tenants);
    expect(page.impact.by_key).toEqual(first.impact.by_key);
    expect(page.digest?.split('-')[2]).toBe(first.digest?.split('-')[2]);
    expect(page.impact.items.length).toBeGreaterThan(0);
  }
  return { ...first, found };
}

const sorted = (lines: Iterable<string>): string[] => [...new Set(lines)].toSorted();
const lineOf = (tenantId: string, context: ImpactContext, key: string, ...rest: unknown[]) =>
  JSON.stringify([tenantId, context, key, ...rest.map((each) => each ?? '(absent)')]);

/**
 * In the order in which they are applied, each over those before it; with the keys of which the
 * platform's layers say something else.
 */
const plans: [string, PlanItem[], string[]][] = [
  [
    'new public entries',
    [
      {
        action: 'put',
        path: '/config/global/default_region',
        body: { config_value: 'asia', is_public: true },
      },
      { action: 'put', path: '/config/global/band', body: { config_value: 'g', is_public: true } },
      { action: 'put', path: '/config/global/secret', body: { config_value: 1 } },
      {
        action: 'put',
        path: '/config/global/max_cost_impact_auto',
        body: { config_value: 3, is_public: true },
      },
    ],
    ['band', 'default_region', 'max_cost_impact_auto'],
  ],
  [
    'a default of a service type, which some tenants override, and a bound on one of a pair',
    [
      {
        action: 'patch',
        path: '/config/service-types/cloud_run/default',
        body: { default_settings: { band: 'r' } },
      },
      // Of a pair of keys only one: the other follows.
      { action: 'put', path: '/config/bounds', body: { max_instances: { maximum: 5 } } },
    ],
    ['band'],
  ],
  [
    'bounds, lower limits of a service type, and a new one that bounds name already',
    [
      {
        action: 'patch',
        path: '/config/service-types/cloud_run/default',
        body: { scaling_limits: { max_instances: 6 }, default_settings: { memory: null } },
      },
      { action: 'put', path: '/config/service-types/spanner/default', body: {} },
      {
        action: 'put',
        path: '/config/bounds',
        body: {
          max_instances: { maximum: 4 },
          max_cost_impact_auto: { maximum: 12 },
          max_cost_impact_approval: { maximum: 25, service_types: ['cloud_sql'] },
          automation_enabled: { const: false, service_types: ['cloud_sql'] },
          default_cpu: { enum: ['1', '2'] },
          band: { enum: ['a', 'b', 'r'], mode: 'warn' },
          label: { const: 'x', service_types: ['spanner'] },
        },
      },
    ],
    ['memory', 'scaling_limits'],
  ],
  [
    'removals, and a service type that is no longer active',
    [
      { action: 'delete', path: '/config/global/band' },
      {
        action: 'patch',
        path: '/config/bounds',
        body: { max_instances: null, band: { mode: null } },
      },
      {
        action: 'patch',
        path: '/config/service-types/cloud_functions/default',
        body: { is_active: false },
      },
    ],
    ['timeout_seconds'],
  ],
];

describe('a plan is what applying it does, for every context of random tenants', () => {
  const readTypes = [...types, 'spanner'];
  let before: Map<string, Effective>;
  beforeAll(async () => {
    before = await readAll(readTypes);
  });

  test.each(plans)('%s', async (_what, items, layered) => {
    const violated = await violations();
    const typesBefore = await activeTypes();
    const planned = await planAll(items);
    expect(planned.complete).toBe(true);
    const applied = await call(
      'global-config.plan.apply',
      { body: { digest: planned.digest!, items } },
      admin,
    );
    expect(applied.revision).toBe(planned.base.platform + items.length);
    const [earlier, after] = [before, await readAll(readTypes)];
    before = after;
    const types = new Set([...typesBefore, ...(await activeTypes())]);

    const wanted: string[] = [];
    const changed = new Set<string>();
    const clamped = new Set<string>();
    const changedByKey = new Map<string, Set<string>>();
    for (const [name, was] of earlier) {
      const [tenantId, context] = JSON.parse(name) as [string, ImpactContext];
      if (context.service_type !== undefined && !types.has(context.service_type)) continue;
      const becomes = after.get(name)!;
      for (const key of new Set([...Object.keys(was.values), ...Object.keys(becomes.values)])) {
        const [one, other] = [was.values[key], becomes.values[key]];
        if (JSON.stringify(one) === JSON.stringify(other)) continue;
        const layer = becomes.layers[key];
        wanted.push(lineOf(tenantId, context, key, one, other, layer));
        changed.add(tenantId);
        changedByKey.set(key, (changedByKey.get(key) ?? new Set()).add(tenantId));
        if (becomes.enforced.includes(key)) clamped.add(tenantId);
      }
    }
    const received = planned.found
      .filter((item) => JSON.stringify(item.before) !== JSON.stringify(item.after))
      .map((item) =>
        lineOf(item.tenant_id, item.context, item.key, item.before, item.after, item.decided_by),
      );
    expect(received.length).toBeGreaterThan(0);
    expect(sorted(received)).toEqual(sorted(wanted));
    expect(received).toHaveLength(new Set(received).size);

    const known = new Set(violated.map((each) => documentOf(each) + each.path));
    const invalid = new Set(
      (await violations())
        .filter((each) => !known.has(documentOf(each) + each.path))
        .map(documentOf),
    );
    expect(planned.impact.tenants).toEqual({
      total: tenantCount,
      changed: changed.size,
      shielded: layered.length > 0 ? tenantCount - changed.size : 0,
      invalid: invalid.size,
      clamped: clamped.size,
    });
    for (const [key, { changed: count }] of Object.entries(planned.impact.by_key))
      expect([key, count]).toEqual([key, changedByKey.get(key)?.size ?? 0]);
    for (const key of layered) {
      const { changed: count, shielded_by } = planned.impact.by_key[key]!;
      const shielded = Object.values(shielded_by).reduce((sum, each) => sum + each, 0);
      expect([key, count + shielded]).toEqual([key, tenantCount]);
    }
    for (const key of changedByKey.keys()) expect(planned.impact.by_key).toHaveProperty(key);
  });

  test('small pages tell the same, each item once', async () => {
    const items: PlanItem[] = [
      { action: 'put', path: '/config/bounds', body: { max_cost_impact_auto: { maximum: 1 } } },
    ];
    const whole = await planAll(items);
    const inParts = await planAll(items, 37);
    expect(inParts.found).toEqual(whole.found);
  });
});

describe('a digest', () => {
  const items: PlanItem[] = [
    {
      action: 'put',
      path: '/config/global/moving',
      body: { config_value: 1, is_public: true },
    },
    { action: 'patch', path: '/config/bounds', body: { default_region: { enum: ['eu', 'asia'] } } },
  ];
  const plan = async () => (await call('global-config.plan', { body: { items } }, admin)).digest!;
  const apply = (digest: string, written = items) =>
    call('global-config.plan.apply', { body: { digest, items: written } }, admin);
  const moved = (message: RegExp) =>
    expect.objectContaining({
      type: 'precondition_failed',
      message: expect.stringMatching(message),
    });
  const put = (key: string) =>
    call('global-config.entries.put', { key, body: { config_value: 1 } }, admin);

  test('is refused when the platform has moved, which says what was written', async () => {
    const digest = await plan();
    await put('meanwhile');
    await expect(apply(digest)).rejects.toEqual(moved(/plan was made at.*global_meanwhile/));
  });

  test('is refused when a tenant says something else of a key, by name', async () => {
    const digest = await plan();
    const [tenant] = tenants;
    await call(
      'tenant-config.agents.put',
      { tenant_id: tenant!.id, agent_type: 'newcomer', body: { default_region: 'us' } },
      { ...admin, tenant_id: tenant!.id, roles: ['tenant_admin'] },
    );
    await expect(apply(digest)).rejects.toEqual(moved(/the configuration of Tenant 0/));
  });

  test('is refused for other items', async () => {
    const digest = await plan();
    const other = { ...items[0]!, body: { config_value: 2, is_public: true } };
    for (const written of [[items[0]!], [other, items[1]!]])
      await expect(apply(digest, written)).rejects.toEqual(moved(/the items/));
  });

  test('holds while tenants write what it does not depend on', async () => {
    const digest = await plan();
    const tenant = tenants.find(({ agents }) => agents.length > 0)!;
    await call(
      'tenant-config.agents.patch',
      { tenant_id: tenant.id, agent_type: tenant.agents[0]!, body: { default_memory: '1Gi' } },
      { ...admin, tenant_id: tenant.id, roles: ['tenant_admin'] },
    );
    const { revision, items: written } = await apply(digest);
    expect(written).toEqual([
      { action: 'put', path: '/config/global/moving', outcome: 'created', revision: revision - 1 },
      { action: 'patch', path: '/config/bounds', outcome: 'updated', revision },
    ]);
    const { items: changes } = await call('global-config.changes', { after: revision - 2 }, admin);
    expect(changes.map(({ revision: each, keys }) => [each, keys])).toEqual([
      [revision - 1, ['global_moving']],
      [revision, ['bounds_platform']],
    ]);
  });

  test('of items of which one is refused: nothing is written, and the place is named', async () => {
    const wrong: PlanItem[] = [
      items[0]!,
      { action: 'put', path: '/config/bounds', body: { automation_enabled: { maximum: 1 } } },
    ];
    const before = await database.query('SELECT * FROM strata.revisions ORDER BY scope');
    const planned = call('global-config.plan', { body: { items: wrong } }, admin);
    await expect(planned).rejects.toMatchObject({
      type: 'validation_failed',
      data: { errors: [{ path: '/items/1/body/automation_enabled/maximum' }] },
    });
    const stale: PlanItem[] = [items[0]!, { ...items[1]!, if_match: '"1"' }];
    await expect(call('global-config.plan', { body: { items: stale } }, admin)).rejects.toEqual(
      moved(/^Item 1: /),
    );
    expect(await database.query('SELECT * FROM strata.revisions ORDER BY scope')).toEqual(before);
  });
});
