/** The layers over REST: each shown to win and to be shadowed, with `explain` naming where the value comes from. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createDatabase, type Database } from '../support/postgres.ts';
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
  database = await createDatabase();
  strata = await startStrata({ DATABASE_URL: database.url, DEFAULT_MAX_COST_IMPACT_AUTO: '7.5' });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Layers');
});
afterAll(async () => {
  await strata?.stop();
  await database?.drop();
});

const key = 'max_concurrent_automations';
const effective = (query = ''): string =>
  `/tenants/${tenant.id}/config/effective?agent_type=scaler&service_id=web&explain=true${query}`;

test('each layer wins over the one below it and is shadowed by the one above', async () => {
  const { id, admin } = tenant;
  await admin.put(`/tenants/${id}/services/web`, { service_type: 'cloud_run' });
  // A key that every layer can hold: risk defaults have it in env and tenant_risk, free-form places hold it elsewhere.
  const custom = 'cost_band';
  const steps = [
    {
      layer: 'global',
      source: 'global_cost_band',
      write: () =>
        platform.put('/config/global/cost_band', { config_value: 'global', is_public: true }),
    },
    {
      layer: 'service_type',
      source: 'service_type_cloud_run_default',
      write: () =>
        platform.patch('/config/service-types/cloud_run/default', {
          default_settings: { cost_band: 'service_type' },
        }),
    },
    {
      layer: 'tenant_risk',
      source: `risk_config_${id}`,
      write: () =>
        admin.patch(`/tenants/${id}/config/risk`, {
          service_overrides: { cloud_run: { cost_band: 'tenant_risk' } },
        }),
    },
  ] as const;
  const below: { layer: string; value: string }[] = [];
  for (const { layer, source, write } of steps) {
    const written = await write();
    expect(written.status).toBeLessThan(300);
    const { body } = await admin.get(effective());
    expect(body.values[custom]).toBe(layer);
    expect(body.explain[custom]).toEqual({
      layer,
      source,
      revision: Number(written.headers.get('x-config-revision')),
      updated_by: written.headers.get('x-updated-by'),
      updated_at: expect.stringMatching(/^\d{4}-.*Z$/),
      shadowed: below,
    });
    expect(Math.floor(new Date(body.explain[custom].updated_at).getTime() / 1000)).toBe(
      new Date(written.headers.get('last-modified')!).getTime() / 1000,
    );
    below.unshift({ layer, value: layer });
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
  const other = await createTenant(strata.url, platform, 'Names');
  await other.admin.put(`/tenants/${other.id}/services/webs`, { service_type: 'cloud_run' });
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
  expect(message).toContain('There is no such agent_type; the nearest names are scaler.');
  expect(message).toContain('There is no such service_id; the nearest names are web.');
  expect(message).toContain('There is no such service_type; the nearest names are cloud_run, ');
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
    config_value: 'global',
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
    shadowed: [{ layer: 'global', value: { from: 1 } }],
  });
  expect(body.explain.automation_enabled).toMatchObject({
    layer: 'tenant_risk',
    shadowed: [
      { layer: 'global', value: 'global' },
      { layer: 'env', value: true },
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
      { layer: 'tenant_risk', value: true },
      { layer: 'global', value: 'global' },
      { layer: 'env', value: true },
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
    layer: 'env',
    source: 'env',
    revision: null,
    updated_by: null,
    updated_at: null,
    shadowed: [],
  });
  expect(body.explain[key]).toMatchObject({
    layer: 'tenant_risk',
    shadowed: [{ layer: 'env', value: 5 }],
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

test('the configurations of all agent types are from one moment, while the tenant writes', async () => {
  const { id, admin } = await createTenant(strata.url, platform, 'One moment');
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
});

test('an inactive service type is no layer, and as_of answers from history', async () => {
  const { id, admin } = tenant;
  const before = await admin.put(`/tenants/${id}/config/agents/past`, { default_cpu: '1' });
  const moment = new Date().toISOString();
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
  const fresh = await createTenant(strata.url, platform, 'Seeded');
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
