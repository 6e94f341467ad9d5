/**
 * The layers over REST: each shown to win and to be shadowed, with `explain` naming where the value
 * comes from.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import type { ServiceBroker } from 'moleculer';
import type { DataSource } from 'typeorm';
import { configResolverService } from '../../services/config-resolver/config-resolver.service.ts';
import { layerActions as platformLayers } from '../../services/global-config/actions/layers.ts';
import { globalConfigSchema } from '../../services/global-config/schema.ts';
import { layerActions as tenantLayers } from '../../services/tenant-config/actions/layers.ts';
import { tenantConfigSchema } from '../../services/tenant-config/schema.ts';
import { serviceCaller } from '../../shared/access.ts';
import { createNode } from '../../shared/node/broker.ts';
import { callAs } from '../../shared/contract-runtime/request.ts';
import { serviceOf } from '../../shared/contract-runtime/service.ts';
import type { ActionName, ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import { openDatabase } from '../../shared/database/open.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { soakTest } from '../support/soak.ts';
import {
  adminPassword,
  createTenantWith,
  signIn,
  startStrata,
  Client,
  type Running,
  type TenantWith,
} from '../support/strata.ts';

let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantWith<never>;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url, DEFAULT_MAX_COST_IMPACT_AUTO: '7.5' });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenantWith(strata.url, platform, 'Layers');
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

const key = 'max_concurrent_automations';
const effective = (query = ''): string =>
  `/tenants/${tenant.id}/config/effective?agent_type=scaler&service_id=web&explain=true${query}`;

test('a value is by whoever set it, not by whoever wrote its document last', async () => {
  const { id, admin } = tenant;
  const address = `/tenants/${id}/config/agents/author`;
  const explained = async () =>
    (await admin.get(`/tenants/${id}/config/effective?agent_type=author&explain=true`)).body
      .explain;
  const written = async (answer: ReturnType<Client['put']>): Promise<number> =>
    Number((await answer).headers.get('x-config-revision'));

  const first = await written(admin.put(address, { default_memory: '1Gi', default_cpu: '1' }));
  const second = await written(admin.put(address, { default_memory: '1Gi', default_cpu: '2' }));
  let of = await explained();
  expect(of.default_memory.revision).toBe(first);
  expect(of.default_cpu.revision).toBe(second);
  const back = await written(admin.post(`/tenants/${id}/config/rollback`, { revision: first }));
  of = await explained();
  expect(of.default_memory.revision).toBe(first);
  expect(of.default_cpu).toMatchObject({ value: '1', revision: back });
  expect((await admin.delete(address)).status).toBe(204);
  const again = await written(admin.put(address, { default_memory: '1Gi' }));
  expect((await explained()).default_memory.revision).toBe(again);
  const { body: then } = await admin.get(
    `/tenants/${id}/config/effective?agent_type=author&explain=true&as_of=${second}`,
  );
  expect(then.explain.default_memory.revision).toBe(first);
  await admin.delete(address);
});

test('a trial says what becomes of one effective configuration', async () => {
  const { id, admin } = tenant;
  const risk = `/tenants/${id}/config/risk`;
  await admin.patch(risk, {
    global_settings: { max_resource_scaling: 8 },
    service_overrides: { cloud_sql: { max_resource_scaling: 5 } },
  });
  const clearing = { service_overrides: { cloud_sql: { max_resource_scaling: null } } };
  const trial = await admin.patch(
    `${risk}?dry_run=true&effective=true&for_service_type=cloud_sql`,
    clearing,
  );
  expect(trial.body.effective).toEqual([
    {
      key: 'max_resource_scaling',
      before: 5,
      after: 8,
      decided_by: 'tenant_risk',
      path: '/global_settings/max_resource_scaling',
      enforced: false,
    },
  ]);
  const elsewhere = await admin.patch(`${risk}?dry_run=true&effective=true`, clearing);
  expect(elsewhere.body.effective).toEqual([]);
  const real = await admin.patch(`${risk}?effective=true`, clearing);
  expect(real.body.errors).toEqual([{ path: '/effective', message: 'is for dry_run=true' }]);
});

test('a key that may write and not read is told nothing of effective values', async () => {
  const { id, admin } = tenant;
  const made = await admin.post('/auth/api-key', { name: 'writer', scopes: ['config:write'] });
  const writer = new Client(strata.url, made.body.api_key);
  const answer = await writer.patch(`/tenants/${id}/config/risk?dry_run=true&effective=true`, {
    global_settings: { max_resource_scaling: 9 },
  });
  expect([answer.status, answer.body.detail.code]).toEqual([403, 'insufficient_scope']);
});

test('each layer wins over the one below it and is shadowed by the one above', async () => {
  const { id, admin, emails } = tenant;
  await admin.put(`/tenants/${id}/services/web`, { service_type: 'cloud_run' });
  // A key that every layer can hold: risk defaults have it in env and tenant_risk, free-form places
  // hold it elsewhere.
  const custom = 'cost_band';
  const steps = [
    {
      layer: 'global',
      source: 'global_cost_band',
      path: '/config_value',
      write: () =>
        platform.put('/config/global/cost_band', { config_value: 'global', is_public: true }),
    },
    {
      layer: 'service_type',
      source: 'service_type_cloud_run_default',
      path: '/default_settings/cost_band',
      write: () =>
        platform.patch('/config/service-types/cloud_run/default', {
          default_settings: { cost_band: 'service_type' },
        }),
    },
    {
      layer: 'tenant_risk',
      source: `risk_config_${id}`,
      path: '/service_overrides/cloud_run/cost_band',
      write: () =>
        admin.patch(`/tenants/${id}/config/risk`, {
          service_overrides: { cloud_run: { cost_band: 'tenant_risk' } },
        }),
    },
  ] as const;
  const ofPlatform = new Set<string>(['global', 'service_type']);
  const below: object[] = [];
  for (const { layer, source, path, write } of steps) {
    const written = await write();
    expect(written.status).toBeLessThan(300);
    const { body } = await admin.get(effective());
    expect(body.values[custom]).toBe(layer);
    expect(body.explain[custom]).toEqual({
      value: layer,
      layer,
      source,
      path,
      revision: Number(written.headers.get('x-config-revision')),
      updated_by: written.headers.get('x-updated-by'),
      updated_by_name: ofPlatform.has(layer) ? 'Platform administrator' : emails.tenant_admin,
      updated_at: expect.stringMatching(/^\d{4}-.*Z$/),
      shadowed: below,
    });
    expect(Math.floor(new Date(body.explain[custom].updated_at).getTime() / 1000)).toBe(
      new Date(written.headers.get('last-modified')!).getTime() / 1000,
    );
    const { shadowed: _shadowed, ...own } = body.explain[custom];
    below.unshift(own);
  }
});

test('business hours are those of the environment, then of what lies above it', async () => {
  const { id, admin } = tenant;
  const read = async () => {
    const { body } = await admin.get(effective());
    const { layer, shadowed } = body.explain.business_hours;
    return [body.values.business_hours.start, layer, shadowed.length];
  };
  const from = (start: string) => ({ days: ['mon'], start, end: '18:00', timezone: 'Asia/Tokyo' });
  const { body: first } = await admin.get(effective());
  expect(first.values.business_hours).toEqual({
    days: ['mon', 'tue', 'wed', 'thu', 'fri'],
    start: '09:00',
    end: '17:00',
    timezone: 'UTC',
  });
  expect(await read()).toEqual(['09:00', 'env', 0]);
  await platform.put('/config/global/business_hours', {
    config_value: from('01:00'),
    is_public: true,
  });
  expect(await read()).toEqual(['01:00', 'global', 1]);
  await admin.put(`/tenants/${id}/config/agents/scaler`, { business_hours: from('02:00') });
  expect(await read()).toEqual(['02:00', 'agent', 2]);
  await admin.put(`/tenants/${id}/services/web`, {
    service_type: 'cloud_run',
    business_hours: from('03:00'),
  });
  expect(await read()).toEqual(['03:00', 'service_instance', 3]);
  await admin.patch(`/tenants/${id}/services/web`, { business_hours: null });
  await admin.delete(`/tenants/${id}/config/agents/scaler`);
  await platform.delete('/config/global/business_hours');
  expect(await read()).toEqual(['09:00', 'env', 0]);
});

test('names that name nothing are listed, and refused where strict', async () => {
  const { id, admin } = tenant;
  const other = await createTenantWith(strata.url, platform, 'Names');
  await other.admin.put(`/tenants/${other.id}/services/webs`, { service_type: 'cloud_run' });
  await admin.put(`/tenants/${id}/services/web`, { service_type: 'cloud_run' });
  await admin.put(`/tenants/${id}/config/agents/scaler`, {});
  const ask = (query: string) => admin.get(`/tenants/${id}/config/effective?${query}`);
  const unknown = async (query: string) => (await ask(query)).body.unknown;
  expect(await unknown('agent_type=scaler&service_id=web')).toEqual([]);
  expect(await unknown('service_type=cloud_run')).toEqual([]);
  expect(await unknown('agent_type=scalar&service_id=wep&service_type=cloud_runs')).toEqual([
    'agent_type',
    'service_id',
    'service_type',
  ]);
  expect((await ask('agent_type=scaler&service_id=web&strict=true')).status).toBe(200);
  const refused = await ask('agent_type=scalar&service_id=wep&service_type=cloud_runs&strict=true');
  expect(refused.status).toBe(404);
  expect(refused.body.detail.code).toBe('not_found');
  const { message } = refused.body.detail;
  expect(message).toContain('No agent named "scalar". Did you mean scaler?');
  expect(message).toContain('No service named "wep". Did you mean web?');
  expect(message).toContain('No service type named "cloud_runs". Did you mean cloud_run, ');
  // What is refused is not remembered as such.
  await admin.put(`/tenants/${id}/services/wep`, { service_type: 'cloud_run' });
  expect((await ask('service_id=wep&strict=true')).status).toBe(200);
  await admin.delete(`/tenants/${id}/services/wep`);
  expect((await ask('service_id=wep&strict=true')).status).toBe(404);
  await admin.delete(`/tenants/${id}/config/agents/scaler`);
});

test('agent and instance win over what lies below, and deletion uncovers it again', async () => {
  const { id, admin } = tenant;
  await platform.put('/config/global/monitoring_thresholds', {
    config_value: { from: 1 },
    is_public: true,
  });
  await platform.put('/config/global/automation_enabled', {
    config_value: false,
    is_public: true,
  });
  const agent = await admin.put(`/tenants/${id}/config/agents/scaler`, {
    monitoring_thresholds: { cpu: 2 },
  });
  let { body } = await admin.get(effective());
  expect(body.values.monitoring_thresholds).toEqual({ cpu: 2 });
  expect(body.explain.monitoring_thresholds).toMatchObject({
    layer: 'agent',
    source: `agent_config_${id}_scaler`,
    revision: Number(agent.headers.get('x-config-revision')),
    shadowed: [{ layer: 'global', value: { from: 1 }, path: '/config_value' }],
  });
  expect(body.explain.automation_enabled).toMatchObject({
    layer: 'tenant_risk',
    shadowed: [
      { layer: 'global', value: false, path: '/config_value' },
      { layer: 'env', value: true, path: '/automation_enabled' },
    ],
  });

  const instance = await admin.put(`/tenants/${id}/services/web`, { automation_enabled: false });
  ({ body } = await admin.get(effective()));
  expect(body.values.automation_enabled).toBe(false);
  expect(body.explain.automation_enabled).toMatchObject({
    layer: 'service_instance',
    source: `service_instance_${id}_web`,
    revision: Number(instance.headers.get('x-config-revision')),
    shadowed: [
      { layer: 'tenant_risk', value: true, path: '/global_settings/automation_enabled' },
      { layer: 'global', value: false, path: '/config_value' },
      { layer: 'env', value: true, path: '/automation_enabled' },
    ],
  });

  await admin.delete(`/tenants/${id}/services/web`);
  await admin.delete(`/tenants/${id}/config/agents/scaler`);
  ({ body } = await admin.get(effective('&service_type=cloud_run')));
  expect(body.explain.automation_enabled.layer).toBe('tenant_risk');
  expect(body.explain.monitoring_thresholds.layer).toBe('global');
});

test('env shows where nothing lies above it, and a nested object replaces the lower one entirely', async () => {
  const { id, admin } = tenant;
  const { body } = await admin.get(`/tenants/${id}/config/effective?explain=true`);
  expect(body.explain.http_client_timeout_seconds).toEqual({
    value: 30,
    layer: 'env',
    source: 'env',
    path: '/http_client_timeout_seconds',
    revision: null,
    updated_by: null,
    updated_by_name: null,
    updated_at: null,
    shadowed: [],
  });
  expect(body.explain[key]).toMatchObject({
    layer: 'tenant_risk',
    shadowed: [{ layer: 'env', value: 5, path: `/${key}` }],
  });
  expect(Object.keys(body.explain).sort()).toEqual(Object.keys(body.values).sort());
  expect(body.values.monitoring_thresholds).toEqual({ from: 1 });
});

test('a global null wins over env, a private entry is no layer', async () => {
  await platform.put('/config/global/http_client_timeout_seconds', {
    config_value: null,
    is_public: true,
  });
  await platform.put('/config/global/private_entry', {
    config_value: 'secret band',
    is_public: false,
  });
  const { body } = await tenant.admin.get(`/tenants/${tenant.id}/config/effective`);
  expect(body.values.http_client_timeout_seconds).toBeNull();
  expect(body.values).not.toHaveProperty('private_entry');
  await platform.delete('/config/global/http_client_timeout_seconds');
  expect(
    (await tenant.admin.get(`/tenants/${tenant.id}/config/effective`)).body.values
      .http_client_timeout_seconds,
  ).toBe(30);
});

soakTest(
  'the configurations of all agent types are from one moment, while the tenant writes',
  async () => {
    const { id, admin } = await createTenantWith(strata.url, platform, 'One moment');
    const types = Array.from({ length: 8 }, (_each, n) => `type-${n}`);
    for (const type of types) await admin.put(`/tenants/${id}/config/agents/${type}`, {});
    const state = { isWriting: true };
    const writing = (async () => {
      for (let value = 1; state.isWriting; value = (value % 900) + 1)
        await admin.patch(`/tenants/${id}/config/risk`, { global_settings: { [key]: value } });
    })();
    const seen: unknown[][] = [];
    for (let round = 0; round < 40; round += 1) {
      const { body } = await admin.get('/configurations/');
      const values = Object.values<Record<string, unknown>>(body.configurations);
      seen.push([values.length, new Set(values.map((each) => each[key])).size]);
    }
    state.isWriting = false;
    await writing;
    expect(seen).toEqual(seen.map(() => [types.length, 1]));
  },
);

describe('what is written between the read of the tenant and that of the platform', () => {
  /** What happens next, once the tenant's layers are read and before the platform's are. */
  const between: (() => Promise<unknown>)[] = [];
  /** What happens next once the platform's are. */
  const afterwards: (() => Promise<unknown>)[] = [];
  const databases: DataSource[] = [];
  let node: ServiceBroker;
  beforeAll(async () => {
    const options = { url: database.url, poolSize: 2, timeoutMs: 10_000, ssl: false };
    const [tenants, globals] = [
      await openDatabase(options, tenantConfigSchema),
      await openDatabase(options, globalConfigSchema),
    ];
    databases.push(tenants, globals);
    const settings = loadSettings({ LOG_LEVEL: 'silent' }, { roles: [] });
    node = createNode({ settings: liveSettings(settings, {}, []) }).broker;
    const platformActions = platformLayers(globals);
    node.createService(serviceOf('tenant-config', tenantLayers(tenants)));
    node.createService(
      serviceOf('global-config', {
        async 'global-config.layers'(params) {
          await between.shift()?.();
          const answer = await platformActions['global-config.layers'](params);
          await afterwards.shift()?.();
          return answer;
        },
        async 'global-config.layers.now'() {
          await between.shift()?.();
          const answer = await platformActions['global-config.layers.now']();
          await afterwards.shift()?.();
          return answer;
        },
      }),
    );
    node.createService(configResolverService({ settings: () => settings }));
    await node.start();
  });
  afterAll(async () => {
    await node?.stop();
    for (const each of databases) await each.destroy();
  });

  const ask = <A extends ActionName>(action: A, params: ParamsOf<A>): Promise<ResultOf<A>> =>
    callAs(node, action, params, { caller: serviceCaller('test'), requestId: 'r' });
  const writeAgent = ({ id, admin }: TenantWith<never>, value: number) =>
    admin.put(`/tenants/${id}/config/agents/mover`, { custom: { of_tenant: value } });
  const writePlatform = (value: number) =>
    platform.put('/config/global/of_platform', { config_value: value, is_public: true });
  /** The tenant first, so that the platform's value is never ahead of the tenant's. */
  const writeBoth = (moving: TenantWith<never>, value: number) => async () => {
    await writeAgent(moving, value);
    await writePlatform(value);
  };
  const revisions = async ({ id }: TenantWith<never>) => {
    const rows = await database.query<{ scope: string; revision: string }>(
      "SELECT scope, revision FROM strata.revisions WHERE scope IN ('platform', $1)",
      [`tenant:${id}`],
    );
    const of = (scope: string) => Number(rows.find((row) => row.scope === scope)!.revision);
    return { tenant: of(`tenant:${id}`), platform: of('platform') };
  };

  test('effective values are of one moment, and labelled with its revisions', async () => {
    const moving = await createTenantWith(strata.url, platform, 'Moving');
    await writeBoth(moving, 1)();
    between.push(writeBoth(moving, 2));
    const params = { tenant_id: moving.id, agent_type: 'mover', explain: true };
    const { revision, values, explain } = await ask('config-resolver.resolve', params);
    expect(values).toMatchObject({ custom: { of_tenant: 2 }, of_platform: 2 });
    expect(revision).toEqual(await revisions(moving));
    expect(explain!.custom).toMatchObject({ revision: revision.tenant, layer: 'agent' });
    expect(explain!.of_platform).toMatchObject({ revision: revision.platform });
  });

  test('what the tenant writes meanwhile, with the platform as it was, is not in the answer', async () => {
    const moving = await createTenantWith(strata.url, platform, 'Moving on');
    await writeBoth(moving, 3)();
    const then = [await revisions(moving)];
    between.push(() => writeAgent(moving, 4));
    afterwards.push(writeBoth(moving, 5));
    const params = { tenant_id: moving.id, agent_type: 'mover' };
    const answer = await ask('config-resolver.resolve', params);
    expect(answer.values).toMatchObject({ custom: { of_tenant: 3 }, of_platform: 3 });
    expect([answer.revision]).toEqual(then);
  });

  test('an instance that gets another type meanwhile shows the layer of that type', async () => {
    const moving = await createTenantWith(strata.url, platform, 'Moving type');
    const path = `/tenants/${moving.id}/services/web`;
    const settingsOf = (type: string) => ({ default_settings: { of_type: type } });
    for (const type of ['cloud_run', 'cloud_sql'])
      await platform.patch(`/config/service-types/${type}/default`, settingsOf(type));
    await moving.admin.put(path, { service_type: 'cloud_run' });
    between.push(async () => {
      await moving.admin.delete(path);
      await moving.admin.put(path, { service_type: 'cloud_sql' });
      await writePlatform(4);
    });
    const params = { tenant_id: moving.id, service_id: 'web' };
    const answer = await ask('config-resolver.resolve', params);
    expect(answer).toMatchObject({ service_type: 'cloud_sql', values: { of_type: 'cloud_sql' } });
    expect(answer.revision).toEqual(await revisions(moving));
  });

  test('the configurations of all agent types are of one moment, also of agents that went or came', async () => {
    const moving = await createTenantWith(strata.url, platform, 'All moving');
    const agents = `/tenants/${moving.id}/config/agents`;
    await moving.admin.put(`${agents}/going`, {});
    await moving.admin.put(`${agents}/staying`, { custom: { of_tenant: 'stays' } });
    await writeBoth(moving, 5)();
    const then: unknown[] = [];
    between.push(async () => {
      await moving.admin.delete(`${agents}/going`);
      await moving.admin.put(`${agents}/coming`, {});
      await writeBoth(moving, 6)();
      then.push(await revisions(moving));
    });
    afterwards.push(async () => {
      await moving.admin.delete(`${agents}/coming`);
      await moving.admin.put(`${agents}/late`, {});
      await writeBoth(moving, 7)();
    });
    const answer = await ask('config-resolver.configurations', { tenant_id: moving.id });
    expect(Object.keys(answer.configurations)).toEqual(['coming', 'mover', 'staying']);
    const shown = (agentType: string) => answer.configurations[agentType];
    expect(shown('mover')).toMatchObject({ custom: { of_tenant: 6 }, of_platform: 6 });
    expect(shown('staying')).toMatchObject({ custom: { of_tenant: 'stays' }, of_platform: 6 });
    expect([answer.revision]).toEqual(then);
  });

  test('what changes with the platform at every read is of one moment all the same', async () => {
    const moving = await createTenantWith(strata.url, platform, 'Never still');
    const path = `/tenants/${moving.id}/services/web`;
    const moments: { revision: object; service_type: string }[] = [];
    const become = (type: string) => async () => {
      await moving.admin.delete(path);
      await moving.admin.put(path, { service_type: type });
      await writePlatform(Date.now());
      moments.push({ revision: await revisions(moving), service_type: type });
    };
    for (const type of ['cloud_run', 'cloud_sql'])
      await platform.patch(`/config/service-types/${type}/default`, {
        default_settings: { of_type: type },
      });
    await become('cloud_run')();
    const types = ['cloud_sql', 'cloud_run', 'cloud_sql', 'cloud_run', 'cloud_sql', 'cloud_run'];
    between.push(...types.map(become));
    const params = { tenant_id: moving.id, service_id: 'web' };
    const answer = await ask('config-resolver.resolve', params);
    expect(between.length).toBeLessThan(4);
    between.splice(0);
    const { revision, service_type, values } = answer;
    expect(moments).toContainEqual({ revision, service_type });
    expect(values.of_type).toBe(service_type);
  });
});

test('an inactive service type is no layer, and as_of answers from history', async () => {
  const { id, admin } = tenant;
  const before = await admin.put(`/tenants/${id}/config/agents/past`, { default_cpu: '1' });
  // Its milliseconds are cut off, and the revision's are not.
  await delay(2);
  const moment = new Date().toISOString();
  await delay(2);
  await admin.put(`/tenants/${id}/config/agents/past`, { default_cpu: '2' });
  await admin.delete(`/tenants/${id}/config/agents/past`);
  const at = (asOf: string) =>
    admin.get(`/tenants/${id}/config/effective?agent_type=past&as_of=${asOf}`);
  const revision = Number(before.headers.get('x-config-revision'));
  expect((await at(String(revision))).body).toMatchObject({
    revision: { tenant: revision },
    values: { default_cpu: '1' },
  });
  expect((await at(moment)).body.values.default_cpu).toBe('1');
  expect((await at(String(revision + 1))).body.values.default_cpu).toBe('2');
  expect((await at(String(revision + 2))).body.values).not.toHaveProperty('default_cpu');
  expect(
    (await admin.get(`/tenants/${id}/config/effective?agent_type=past`)).body.values,
  ).not.toHaveProperty('default_cpu');

  await platform.put('/config/service-types/batch/default', { default_settings: { batch: true } });
  expect(
    (await admin.get(`/tenants/${id}/config/effective?service_type=batch`)).body.values.batch,
  ).toBe(true);
  await platform.patch('/config/service-types/batch/default', { is_active: false });
  expect(
    (await admin.get(`/tenants/${id}/config/effective?service_type=batch`)).body.values,
  ).not.toHaveProperty('batch');
});

test('new tenants are seeded from the settings and the active service types', async () => {
  await platform.put('/config/service-types/data_pipeline/default', { default_settings: {} });
  const fresh = await createTenantWith(strata.url, platform, 'Seeded');
  const { body } = await fresh.admin.get(`/tenants/${fresh.id}/config/risk`);
  expect(body.global_settings.max_cost_impact_auto).toBe(7.5);
  expect(body.service_overrides).toEqual({
    cloud_functions: {},
    cloud_run: {},
    cloud_sql: {},
    data_pipeline: {},
    kubernetes_engine: {},
  });
  // What a PUT leaves out is filled with the same seeds.
  expect((await fresh.admin.put(`/tenants/${fresh.id}/config/risk`, {})).body).toEqual(body);
});
