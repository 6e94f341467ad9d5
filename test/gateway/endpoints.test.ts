/** The configuration endpoints that clients rely on: the answer of each, and each side effect. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { connect } from 'node:net';
import { documentedPath } from '../../gateway/openapi/document.ts';
import { restRoutes } from '../../gateway/http/rest.ts';
import { sharedStrata, type SharedStrata } from '../support/shared-strata.ts';
import {
  adminPassword,
  createTenantWith,
  signIn,
  type Answer,
  type Client,
  type TenantWith,
} from '../support/strata.ts';

let strata: SharedStrata;
let platform: Client;
let tenant: TenantWith<'viewer'>;

beforeAll(async () => {
  strata = await sharedStrata();
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenantWith(strata.url, platform, 'Endpoint rows', ['viewer']);
});
// Other files use this platform after it.
afterAll(async () => {
  for (const key of [named.key, 'as-stored', 'proto', 'hidden'])
    await platform.delete(`/config/global/${key}`);
});

interface Row {
  readonly method: 'GET' | 'PUT';
  readonly path: string;
  readonly body?: unknown;
  readonly by?: 'platform';
  /** What a write must leave behind. */
  readonly drops?: (tenantId: string) => string;
  readonly configType?: string;
  readonly resourceId?: (tenantId: string) => string;
  readonly audit?: string;
  readonly expected: (answer: unknown, tenantId: string, revision: number) => void;
}

const defaults = {
  global_settings: {
    max_cost_impact_auto: 15,
    max_cost_impact_approval: 50,
    max_resource_scaling: 3,
    approval_timeout_minutes: 30,
    require_approval_for_high_risk: true,
    auto_approve_rollbacks: true,
    automation_enabled: true,
    business_hours_only: false,
    max_concurrent_automations: 5,
  },
  service_overrides: { cloud_run: {}, cloud_functions: {}, cloud_sql: {}, kubernetes_engine: {} },
};

/** What clients rely on, from the tenant's documents to the platform's. */
const rows: readonly Row[] = [
  {
    method: 'GET',
    path: '/tenants/{tenant_id}/config/risk',
    expected: (body) => expect(body).toEqual(defaults),
  },
  {
    method: 'PUT',
    path: '/tenants/{tenant_id}/config/risk',
    body: { global_settings: { max_cost_impact_auto: 9 } },
    drops: (id) => `risk_config_${id}`,
    configType: 'tenant_risk_config',
    resourceId: (id) => id,
    audit: 'config.risk.updated',
    expected: (body) =>
      expect(body).toEqual({
        ...defaults,
        global_settings: { ...defaults.global_settings, max_cost_impact_auto: 9 },
      }),
  },
  {
    method: 'PUT',
    path: '/tenants/{tenant_id}/config/agents/{agent_type}',
    body: { default_region: 'europe-west1' },
    drops: (id) => `agent_config_${id}_scaler`,
    configType: 'agent_config',
    resourceId: () => 'scaler',
    audit: 'config.agent.created',
    expected: (body) =>
      expect(body).toEqual({ agent_type: 'scaler', default_region: 'europe-west1' }),
  },
  {
    method: 'GET',
    path: '/tenants/{tenant_id}/config/agents/{agent_type}',
    expected: (body) =>
      expect(body).toEqual({ agent_type: 'scaler', default_region: 'europe-west1' }),
  },
  {
    method: 'PUT',
    path: '/tenants/{tenant_id}/services/{service_id}',
    body: { service_type: 'cloud_run', min_instances: 1, max_instances: 4 },
    drops: (id) => `service_instance_${id}_checkout`,
    configType: 'service_config',
    resourceId: () => 'checkout',
    audit: 'config.service.created',
    expected: (body) =>
      expect(body).toEqual({
        service_id: 'checkout',
        service_type: 'cloud_run',
        min_instances: 1,
        max_instances: 4,
      }),
  },
  {
    method: 'GET',
    path: '/tenants/{tenant_id}/services/{service_id}',
    expected: (body) =>
      expect(body).toEqual({
        service_id: 'checkout',
        service_type: 'cloud_run',
        min_instances: 1,
        max_instances: 4,
      }),
  },
  {
    method: 'GET',
    path: '/tenants/{tenant_id}/services',
    expected: (body) =>
      expect(body).toEqual({
        items: [expect.objectContaining({ service_id: 'checkout' })],
        next_cursor: null,
      }),
  },
  {
    method: 'PUT',
    path: '/tenants/{tenant_id}/projects/{project_id}/config',
    body: { name: 'Shop', budget: { amount: 10.5, currency: 'EUR' } },
    drops: (id) => `project_config_${id}_shop-prod`,
    configType: 'project_config',
    resourceId: () => 'shop-prod',
    audit: 'config.project.created',
    expected: (body) =>
      expect(body).toEqual({
        project_id: 'shop-prod',
        name: 'Shop',
        budget: { amount: 10.5, currency: 'EUR' },
      }),
  },
  {
    method: 'GET',
    path: '/tenants/{tenant_id}/projects/{project_id}/config',
    expected: (body) =>
      expect(body).toEqual({
        project_id: 'shop-prod',
        name: 'Shop',
        budget: { amount: 10.5, currency: 'EUR' },
      }),
  },
  {
    method: 'PUT',
    path: '/config/global/{key}',
    by: 'platform',
    body: { config_value: { low: [1, 2] }, is_public: true, requires_restart: true },
    drops: () => 'global_alerting.bands',
    audit: 'config.global.created',
    expected: (body, _id, revision) =>
      expect(body).toMatchObject({
        config_key: 'alerting.bands',
        config_value: { low: [1, 2] },
        is_public: true,
        requires_restart: true,
        revision,
      }),
  },
  {
    method: 'GET',
    path: '/config/global/{key}',
    expected: (body) =>
      expect(body).toMatchObject({ config_key: 'alerting.bands', config_value: { low: [1, 2] } }),
  },
  {
    method: 'GET',
    path: '/configurations/',
    expected: (body, id) =>
      expect(body).toMatchObject({
        tenant_id: id,
        configurations: { scaler: { default_region: 'europe-west1', max_cost_impact_auto: 9 } },
      }),
  },
];

const named: Readonly<Record<string, string>> = {
  agent_type: 'scaler',
  service_id: 'checkout',
  project_id: 'shop-prod',
  key: 'alerting.bands',
};
const at = (path: string): string =>
  path.replaceAll(/\{([a-z_]+)\}/g, (_whole, name: string) =>
    name === 'tenant_id' ? tenant.id : named[name]!,
  );

/** The audit service is handed events from the outbox, so one that is committed is there soon. */
async function auditEvent(action: string, requestId: string, by: Client): Promise<unknown> {
  const until = Date.now() + 60_000;
  for (;;) {
    const { body } = await by.get(`/audit/events?action=${action}&limit=200`);
    const found = (body as { items: { request_id: string }[] }).items.find(
      (event) => event.request_id === requestId,
    );
    if (found || Date.now() > until) return found;
    await new Promise((resolve) => {
      setTimeout(resolve, 50);
    });
  }
}

describe('the rows answer as specified, with their side effects', () => {
  test.each(rows)('$method $path', async (row) => {
    const client = row.by === 'platform' ? platform : tenant.admin;
    const path = at(row.path);
    if (row.method === 'GET') {
      const answer = await client.get(path);
      expect(answer.status).toBe(200);
      row.expected(answer.body, tenant.id, Number(answer.headers.get('x-config-revision')));
      return;
    }
    const tried = await client.put(`${path}?dry_run=true`, row.body);
    expect(tried.status).toBe(200);
    expect(tried.body).toMatchObject({ dry_run: true, invalidates: [row.drops!(tenant.id)] });

    await client.get(path);
    const answer = await client.put(path, row.body, { 'x-change-reason': 'a row of the table' });
    expect([200, 201]).toContain(answer.status);
    const revision = Number(answer.headers.get('x-config-revision'));
    row.expected(answer.body, tenant.id, revision);
    expect(answer.headers.get('etag')).toBe(`"${revision}"`);

    const [change] = await strata.database.query<{ keys: string[] }>(
      'SELECT keys FROM strata.changes WHERE scope = $1 ORDER BY created_at DESC, id DESC LIMIT 1',
      [row.by ?? `tenant:${tenant.id}`],
    );
    expect(change!.keys).toEqual([row.drops!(tenant.id)]);
    const read = await client.get(path);
    expect(read.headers.get('etag')).toBe(`"${revision}"`);
    row.expected(read.body, tenant.id, revision);

    const requestId = answer.headers.get('x-request-id')!;
    expect(await auditEvent(row.audit!, requestId, client)).toMatchObject({
      action: row.audit,
      tenant_id: row.by ? null : tenant.id,
    });
    const history = await tenant.admin.get(`/tenants/${tenant.id}/config/history?limit=1`);
    if (row.configType) {
      expect(history.body.items[0]).toMatchObject({
        revision,
        config_type: row.configType,
        resource_id: row.resourceId!(tenant.id),
        reason: 'a row of the table',
        request_id: requestId,
      });
    } else {
      expect(history.body.items[0].request_id).not.toBe(requestId);
    }
  });

  test("the cache of exactly that key is dropped, and the helper drops only one's own tenant", async () => {
    await tenant.admin.get(`/tenants/${tenant.id}/config/risk`);
    const dropped = await tenant.admin.post('/configurations/cache/invalidate', {});
    expect(dropped.status).toBe(200);
    expect(dropped.body.invalidated).toContain(`risk_config_${tenant.id}`);
    const foreign = await tenant.admin.post('/configurations/cache/invalidate', {
      keys: ['risk_config_00000000-0000-4000-8000-000000000000'],
    });
    expect(foreign.status).toBe(403);
    // Another tenant's key stays foreign where it ends in one's own id.
    const disguised = await tenant.admin.post('/configurations/cache/invalidate', {
      keys: [`service_instance_00000000-0000-4000-8000-000000000000_${tenant.id}`],
    });
    expect([disguised.status, disguised.body.detail.code]).toEqual([403, 'tenant_mismatch']);
  });
});

test('every configuration route that clients rely on is served and has a row', () => {
  const specified = [
    'GET /configurations/',
    'GET /tenants/{tenant_id}/config/risk',
    'PUT /tenants/{tenant_id}/config/risk',
    'GET /tenants/{tenant_id}/config/agents/{agent_type}',
    'PUT /tenants/{tenant_id}/config/agents/{agent_type}',
    'GET /tenants/{tenant_id}/services',
    'GET /tenants/{tenant_id}/services/{service_id}',
    'PUT /tenants/{tenant_id}/services/{service_id}',
    'GET /tenants/{tenant_id}/projects/{project_id}/config',
    'PUT /tenants/{tenant_id}/projects/{project_id}/config',
    'GET /config/global/{key}',
    'PUT /config/global/{key}',
  ];
  expect(rows.map(({ method, path }) => `${method} ${path}`).sort()).toEqual([...specified].sort());
  const served = new Set(restRoutes.map(({ rest }) => `${rest.method} ${rest.path}`));
  for (const row of [...specified, 'POST /configurations/cache/invalidate', 'POST /config/reload'])
    expect(served).toContain(row);
});

describe('conventions', () => {
  const risk = (): string => `/tenants/${tenant.id}/config/risk`;

  test('If-None-Match answers 304, If-Match 412 with who changed it', async () => {
    await tenant.admin.put(risk(), {});
    const read = await tenant.admin.get(risk());
    const tag = read.headers.get('etag')!;
    expect((await tenant.admin.get(risk(), { 'if-none-match': tag })).status).toBe(304);
    expect((await tenant.admin.get(risk(), { 'if-none-match': `W/${tag}, "0"` })).status).toBe(304);
    const refused = await tenant.admin.put(risk(), {}, { 'if-match': '"0"' });
    expect(refused.status).toBe(412);
    expect(refused.headers.get('etag')).toBe(tag);
    for (const header of ['x-updated-by', 'x-updated-by-name'])
      expect(refused.headers.get(header)).toBe(read.headers.get(header));
    expect(refused.body.detail.message).toContain(tenant.emails.tenant_admin);
    expect((await tenant.admin.put(risk(), {}, { 'if-none-match': '*' })).status).toBe(412);
    expect((await tenant.admin.put(risk(), {}, { 'if-match': tag })).status).toBe(200);
  });

  test('X-Min-Revision is never answered from before it', async () => {
    const written = await tenant.admin.put(risk(), {});
    const revision = Number(written.headers.get('x-config-revision'));
    expect((await tenant.admin.get(risk(), { 'x-min-revision': String(revision) })).status).toBe(
      200,
    );
    const ahead = await tenant.admin.get(risk(), { 'x-min-revision': String(revision + 1000) });
    expect([ahead.status, ahead.body.detail.code]).toEqual([412, 'precondition_failed']);
  });

  const readsWithRevision = restRoutes
    .filter(({ rest }) => 'x-min-revision' in rest.headers)
    .map(({ rest }) => rest.path);
  test.each(readsWithRevision)('X-Min-Revision is heard by GET %s', async (path) => {
    const known: Readonly<Record<string, string>> = {
      tenant_id: tenant.id,
      agent_type: 'cost_optimizer',
      service_id: 'heard',
      project_id: 'heard',
      service_type: 'cloud_run',
      configuration_name: 'default',
      key: 'heard',
    };
    const url = path.replace(/\{(\w+)\}/g, (_all, name: string) => known[name]!);
    const isOfPlatform =
      /^\/config\/(service-types|bounds|budgets|freezes|change-policy|event-destinations)/.test(
        path,
      );
    const client = isOfPlatform ? platform : tenant.admin;
    const ahead = await client.get(url, { 'x-min-revision': '1000000' });
    expect([ahead.status, ahead.body.detail.code]).toEqual([412, 'precondition_failed']);
  });

  test('DELETE removes an override and lets the lower layers show; risk has none', async () => {
    const path = `/tenants/${tenant.id}/config/agents/short_lived`;
    const effective = `/tenants/${tenant.id}/config/effective?agent_type=short_lived`;
    await tenant.admin.put(path, { default_cpu: '2' });
    expect((await tenant.admin.get(effective)).body.values.default_cpu).toBe('2');
    const tried = await tenant.admin.delete(`${path}?dry_run=true`);
    expect(tried.body).toMatchObject({
      dry_run: true,
      invalidates: [`agent_config_${tenant.id}_short_lived`],
    });
    const removed = await tenant.admin.delete(path);
    expect([removed.status, removed.text]).toEqual([204, '']);
    expect((await tenant.admin.get(path)).status).toBe(404);
    expect((await tenant.admin.get(effective)).body.values).not.toHaveProperty('default_cpu');
    expect((await tenant.admin.delete(path)).status).toBe(404);
    const risky = await tenant.admin.delete(risk());
    expect([risky.status, risky.body.detail.code, risky.headers.get('allow')]).toEqual([
      405,
      'method_not_allowed',
      'GET, PUT, PATCH',
    ]);
  });

  test('PATCH is a JSON merge patch', async () => {
    const path = `/tenants/${tenant.id}/projects/patched/config`;
    expect((await tenant.admin.patch(path, { name: 'x' })).status).toBe(404);
    await tenant.admin.put(path, { name: 'One', labels: { a: '1', b: '2' } });
    expect((await tenant.admin.patch(path, { labels: { a: null, c: '3' } })).body).toEqual({
      project_id: 'patched',
      name: 'One',
      labels: { b: '2', c: '3' },
    });
  });

  test('rollback restores what the resource held, under If-Match, as a new revision', async () => {
    const path = `/tenants/${tenant.id}/config/agents/rolled`;
    const first = await tenant.admin.put(path, { default_cpu: '1' });
    const second = await tenant.admin.put(path, { default_cpu: '2' });
    const rollback = `/tenants/${tenant.id}/config/rollback`;
    const body = {
      revision: Number(first.headers.get('x-config-revision')),
      reason: 'two was too many',
    };
    expect(
      (await tenant.admin.post(rollback, body, { 'if-match': first.headers.get('etag')! })).status,
    ).toBe(412);
    const restored = await tenant.admin.post(rollback, body, {
      'if-match': second.headers.get('etag')!,
    });
    expect([restored.status, restored.body]).toEqual([
      200,
      { agent_type: 'rolled', default_cpu: '1' },
    ]);
    const [entry] = (await tenant.admin.get(`/tenants/${tenant.id}/config/history?limit=1`)).body
      .items;
    expect(entry).toMatchObject({
      action: 'rollback',
      reason: 'two was too many',
      changes: [{ path: '/default_cpu', before: '2', after: '1' }],
    });
    const detail = await tenant.admin.get(`/tenants/${tenant.id}/config/history/${entry.revision}`);
    expect(detail.body).toMatchObject({
      before: { default_cpu: '2' },
      after: { default_cpu: '1' },
    });
    expect((await tenant.admin.post(rollback, { revision: 999_999 })).status).toBe(404);
  });

  test('undo restores what the resource held before a revision, and takes a creation back', async () => {
    const path = `/tenants/${tenant.id}/config/agents/undone`;
    const rollback = `/tenants/${tenant.id}/config/rollback`;
    const revisionOf = ({ headers }: Answer): number => Number(headers.get('x-config-revision'));
    const created = revisionOf(await tenant.admin.put(path, { default_cpu: '1' }));
    const changed = revisionOf(await tenant.admin.put(path, { default_cpu: '2' }));
    await tenant.admin.put(path, { default_cpu: '3' });
    const tried = await tenant.admin.post(`${rollback}?dry_run=true`, { undo: changed });
    expect(tried.body).toMatchObject({
      dry_run: true,
      changes: [{ path: '/default_cpu', before: '3', after: '1' }],
    });
    expect((await tenant.admin.get(path)).body.default_cpu).toBe('3');
    const undone = await tenant.admin.post(rollback, { undo: changed, reason: 'too many' });
    expect([undone.status, undone.body]).toEqual([200, { agent_type: 'undone', default_cpu: '1' }]);
    const gone = await tenant.admin.post(rollback, { undo: created });
    expect(gone.status).toBe(204);
    expect((await tenant.admin.get(path)).status).toBe(404);
    const back = await tenant.admin.post(rollback, { undo: revisionOf(gone) });
    expect(back.body).toEqual({ agent_type: 'undone', default_cpu: '1' });
    const { body } = await tenant.admin.get(`/tenants/${tenant.id}/config/history?limit=200`);
    const made = body.items.find(
      (each: { config_type: string; action: string }) =>
        each.config_type === 'tenant_risk_config' && each.action === 'create',
    );
    const always = await tenant.admin.post(rollback, { undo: made.revision });
    expect([always.status, always.body.detail.code]).toEqual([409, 'conflict']);
    const both = await tenant.admin.post(rollback, { undo: created, revision: created });
    const neither = await tenant.admin.post(rollback, {});
    expect([both.body.errors[0].path, neither.body.errors[0].path]).toEqual(['/undo', '/revision']);
    expect((await tenant.admin.post(rollback, { undo: 999_999 })).status).toBe(404);
  });

  test('lists have a cursor, and NDJSON where it is asked for', async () => {
    for (const name of ['a', 'b', 'c'])
      await tenant.admin.put(`/tenants/${tenant.id}/projects/list-${name}/config`, {});
    const seen: string[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const page = await tenant.admin.get(
        `/tenants/${tenant.id}/projects?limit=2${cursor ? `&cursor=${cursor}` : ''}`,
      );
      expect(page.body.items.length).toBeLessThanOrEqual(2);
      seen.push(...page.body.items.map((item: { project_id: string }) => item.project_id));
      cursor = page.body.next_cursor;
    }
    expect(seen).toEqual([...new Set(seen)].sort());
    expect(seen).toEqual(expect.arrayContaining(['list-a', 'list-b', 'list-c']));
    const lines = await tenant.admin.get('/audit/events?limit=5', {
      accept: 'application/x-ndjson',
    });
    expect(lines.headers.get('content-type')).toBe('application/x-ndjson');
    expect(
      lines.text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).tenant_id),
    ).toEqual(Array.from({ length: 5 }, () => tenant.id));
  });

  test('global entries: as stored, public to tenants only when public', async () => {
    for (const value of [
      null,
      0,
      false,
      '',
      [],
      {},
      1e21,
      'ü\u{1f600}',
      { nested: { ['__proto__x']: 1 } },
    ]) {
      const written = await platform.put('/config/global/as-stored', {
        config_value: value,
        is_public: true,
      });
      expect(written.body.config_value).toEqual(value);
      expect((await tenant.viewer.get('/config/global/as-stored')).body.config_value).toEqual(
        value,
      );
    }
    const proto = await platform.send('PUT', '/config/global/proto', {
      raw: '{"config_value":{"__proto__":{"a":1}},"is_public":true}',
    });
    expect(proto.text).toContain('"__proto__":{"a":1}');
    expect((await tenant.viewer.get('/config/global/proto')).text).toContain('"__proto__":{"a":1}');
    await platform.put('/config/global/hidden', { config_value: 1 });
    expect((await platform.get('/config/global/hidden')).status).toBe(200);
    const hidden = await tenant.admin.get('/config/global/hidden');
    const absent = await tenant.admin.get('/config/global/absent');
    expect([hidden.status, hidden.body.detail]).toEqual([404, absent.body.detail]);
  });

  test('a request id is kept or made, and is in the error', async () => {
    const kept = await tenant.admin.get('/nowhere', { 'x-request-id': 'abc-123' });
    expect([kept.status, kept.headers.get('x-request-id'), kept.body.request_id]).toEqual([
      404,
      'abc-123',
      'abc-123',
    ]);
    expect(Object.keys(kept.body.detail).sort()).toEqual(['code', 'message', 'status']);
    const made = await tenant.admin.get('/nowhere', { 'x-request-id': 'no spaces allowed' });
    expect(made.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
    const idOf = async (traceparent: string, more: Record<string, string> = {}) =>
      (await tenant.admin.get('/nowhere', { traceparent, ...more })).body.request_id;
    expect(await idOf(`00-${traceId}-00f067aa0ba902b7-01`)).toBe(traceId);
    expect(await idOf(`cc-${traceId}-00f067aa0ba902b7-01-what-comes`)).toBe(traceId);
    expect(await idOf(`00-${traceId}-00f067aa0ba902b7-01`, { 'x-request-id': 'own' })).toBe('own');
    for (const wrong of [
      `00-${traceId}-00f067aa0ba902b7-01-more`,
      `ff-${traceId}-00f067aa0ba902b7-01`,
      `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`,
      `00-${traceId}-${'0'.repeat(16)}-01`,
      `00-${traceId.toUpperCase()}-00f067aa0ba902b7-01`,
    ])
      expect([wrong, await idOf(wrong)]).toEqual([wrong, expect.stringMatching(/^[0-9a-f]{8}-/)]);
  });

  test('health, metrics, OpenAPI and docs', async () => {
    expect((await tenant.admin.get('/healthz')).body).toEqual({ status: 'ok' });
    expect((await tenant.admin.get('/readyz')).body).toEqual({
      status: 'ready',
      checks: { bus: true, database: true, feed: true },
    });
    expect((await tenant.admin.get('/metrics')).text).toContain(
      'strata_cache_hits_total{cache="configuration_service"}',
    );
    const { body: document } = await tenant.admin.get('/openapi.json');
    expect(document.openapi).toBe('3.1.0');
    for (const { name, rest } of restRoutes)
      expect(document.paths[documentedPath(rest.path)][rest.method.toLowerCase()].operationId).toBe(
        name,
      );
    expect(Object.keys(document.paths['/config/watch'].get.responses['200'].content)).toEqual([
      'text/event-stream',
    ]);
    const { text: page } = await tenant.admin.get('/docs');
    expect(page).toContain('<title>Strata API</title>');
    const attribute = /data-configuration="([^"]+)"/.exec(page)![1]!;
    // Without what would hand the document, or what is tried with it, to services of others.
    expect(JSON.parse(attribute.replaceAll('&quot;', '"').replaceAll('&amp;', '&'))).toMatchObject({
      favicon: expect.stringContaining('data:image/svg+xml,'),
      hideClientButton: true,
      showDeveloperTools: 'never',
      agent: { disabled: true },
      mcp: { disabled: true },
    });
    expect(page).not.toMatch(/https?:\/\//);
    const script = await tenant.admin.get('/docs/js/scalar.js');
    expect([script.status, script.headers.get('content-type')]).toEqual([
      200,
      'application/javascript; charset=utf-8',
    ]);
    expect(script.text.length).toBeGreaterThan(1_000_000);
    expect((await tenant.admin.get('/docs/js/other.js')).body.detail.code).toBe('not_found');
  });

  test('what anybody may ask for is not kept again for each who does not take it', async () => {
    const memory = async (): Promise<number> => {
      const { text } = await tenant.admin.get('/metrics');
      return Number(/^process_resident_memory_bytes (\d+)/m.exec(text)![1]);
    };
    await tenant.admin.get('/docs/js/scalar.js');
    const before = await memory();
    const { hostname, port } = new URL(strata.url);
    const sockets = Array.from({ length: 50 }, () => connect(Number(port), hostname));
    for (const socket of sockets)
      socket.write('GET /docs/js/scalar.js HTTP/1.1\r\nHost: x\r\n\r\n');
    // Its first bytes have come, and the rest is not read.
    await Promise.all(sockets.map((socket) => once(socket, 'readable')));
    const kept = (await memory()) - before;
    for (const socket of sockets) socket.destroy();
    // Of 4 MiB each it would be 200.
    expect(kept).toBeLessThan(100 * 1024 * 1024);
  });
});

describe('reload on one node', () => {
  const reload = async (body: object) => (await platform.post('/config/reload', body)).body;

  test('summarizes, is audited, and refuses everyone but a platform admin', async () => {
    const answer = await platform.post('/config/reload', {
      reload_env: true,
      invalidate: { tenant_ids: [tenant.id] },
      reinit: { configuration_service: true, dynamic_config_service: true },
    });
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({
      status: 'ok',
      reloaded_env: true,
      reinitialized: ['configuration_service', 'dynamic_config_service'],
    });
    expect(answer.body).not.toHaveProperty('errors');
    expect(new Date(answer.body.timestamp).toISOString()).toBe(answer.body.timestamp);
    expect(
      await auditEvent('config_reloaded', answer.headers.get('x-request-id')!, platform),
    ).toMatchObject({ actor: { type: 'operator' }, payload: { request: { reload_env: true } } });
    expect((await tenant.admin.post('/config/reload', {})).body.detail.code).toBe(
      'insufficient_role',
    );
  });

  const everything = { all: true, tenant_ids: [] };
  const nothing = { all: false, tenant_ids: [] };
  test.each<[object, object]>([
    [{}, nothing],
    [{ reinit: { configuration_service: true } }, nothing],
    [{ invalidate: {} }, everything],
    [{ invalidate: { tenant_ids: [] } }, everything],
    [{ invalidate: { all: true } }, everything],
    [{ reinit: { dynamic_config_service: true } }, everything],
    [{ reload_env: true }, everything],
  ])(
    '%j says what it invalidated, and a dry run of it says the same',
    async (body, invalidated) => {
      expect((await reload(body)).invalidated).toEqual(invalidated);
      const tried = await reload({ ...body, dry_run: true });
      expect(tried).toMatchObject({ dry_run: true, invalidated });
    },
  );

  test('named tenants are invalidated alone, also where the environment is read and is as it was', async () => {
    const invalidate = { tenant_ids: [tenant.id] };
    const named = { all: false, tenant_ids: [tenant.id] };
    expect((await reload({ invalidate })).invalidated).toEqual(named);
    const reinit = { dynamic_config_service: true };
    expect((await reload({ invalidate, reinit })).invalidated).toEqual(named);
    expect((await reload({ invalidate, reload_env: true })).invalidated).toEqual(named);
  });

  test.each<[object, boolean]>([
    [{}, true],
    [{ invalidate: {} }, false],
    [{ invalidate: { tenant_ids: [] } }, false],
    [{ invalidate: {}, dry_run: true }, true],
  ])('%j leaves the effective values in memory: %j', async (body, left) => {
    const isLeft = async (): Promise<boolean> => {
      await tenant.admin.get(`/tenants/${tenant.id}/config/effective`);
      await platform.post('/config/reload', body);
      const hits = await measured('hits');
      await tenant.admin.get(`/tenants/${tenant.id}/config/effective`);
      return (await measured('hits')) > hits;
    };
    // On a busy machine the lease may end in between, after which nothing is answered from memory,
    // either.
    const mostTries = left ? 5 : 1;
    let found = await isLeft();
    for (let tries = 1; !found && tries < mostTries; tries += 1) found = await isLeft();
    expect(found).toBe(left);
  });

  /** How often the effective values were answered from this node's memory. */
  async function measured(name: string): Promise<number> {
    const { text } = await tenant.admin.get('/metrics');
    const line = `strata_cache_${name}_total{cache="dynamic_config_service"} `;
    const [, value] = text.split(line);
    return Number.parseInt(value!, 10);
  }
});
