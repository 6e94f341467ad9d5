/**
 * Operating a cluster: reload on every node, revocation everywhere, stopping without losing a
 * request.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Errors, ServiceBroker } from 'moleculer';
import { strataBroker } from '../../client/source/bus.ts';
import { neighbourOptions } from '../../shared/bus/neighbour.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { baseUrl, eventually, startCluster, type Cluster } from '../support/cluster.ts';
import { watch } from '../support/event-stream.ts';
import { comparePast } from '../support/past-oracle.ts';
import { soakTest } from '../support/soak.ts';
import {
  Client,
  createTenantWith,
  memberPassword,
  signIn,
  type TenantFixture,
} from '../support/strata.ts';

let cluster: Cluster;
const folder = mkdtempSync(join(tmpdir(), 'strata-env-'));
const envFile = join(folder, 'strata.env');

/** At once: a node that hears late of a reload reads the file again, and would find it empty. */
function writeEnvFile(text: string): void {
  writeFileSync(`${envFile}.next`, text);
  renameSync(`${envFile}.next`, envFile);
}

beforeAll(async () => {
  writeEnvFile('DEFAULT_MAX_COST_IMPACT_AUTO=15\n');
  cluster = await startCluster({
    gateways: 2,
    environment: { ENV_FILE: envFile },
    cuttable: ['gateway-2', 'identity-1'],
  });
});
afterAll(async () => {
  await cluster?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** A platform service that holds no SECRET_KEY, as moleculer.config.ts makes it. */
async function neighbourWith(apiKey: string, nodeId: string): Promise<ServiceBroker> {
  const given = {
    NODE_ID: nodeId,
    NATS_URL: cluster.environment.NATS_URL,
    STRATA_API_KEY: apiKey,
  };
  const options = neighbourOptions(loadSettings(given, { roles: [] }));
  const broker = new ServiceBroker({ ...options, logger: false });
  await broker.start();
  await broker.waitForServices('tenant-config', 60_000);
  return broker;
}

/** The messages of a node's log. */
const logged = (output: string): string[] =>
  output
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => (JSON.parse(line) as { msg: string }).msg);

test('a service without SECRET_KEY calls with an API key, by its rights, until it is revoked', async () => {
  const { tenant } = cluster;
  const made = await tenant.admin.post('/auth/api-key', { name: 'n', scopes: ['config:read'] });
  expect(made.status).toBe(201);
  const { api_key: key, id } = made.body;
  const neighbour = await neighbourWith(key, 'neighbour-1');
  try {
    const call = (action: string, params: object): Promise<unknown> =>
      neighbour.call<unknown, object>(action, params).catch((error: unknown) => error);
    expect(await call('tenant-config.risk.get', { tenant_id: tenant.id })).toMatchObject({
      document: { global_settings: {} },
    });
    const put = { tenant_id: tenant.id, body: { global_settings: { max_cost_impact_auto: 1 } } };
    expect(await call('tenant-config.risk.put', put)).toMatchObject({
      code: 403,
      type: 'insufficient_scope',
    });
    expect(await call('tenant-config.risk.get', { tenant_id: randomUUID() })).toMatchObject({
      code: 403,
      type: 'tenant_mismatch',
    });
    expect(await call('tenant-config.risk.get', { tenant_id: tenant.id, x: 1 })).toMatchObject({
      code: 422,
      type: 'validation_failed',
      data: { errors: [{ path: '/x' }] },
    });
    expect(await call('auth.login.password', {})).toBeInstanceOf(Errors.ServiceNotFoundError);
    const revoked = await tenant.admin.delete(`/auth/api-keys/${id}`);
    expect(revoked.status).toBe(204);
    expect(await call('tenant-config.risk.get', { tenant_id: tenant.id })).toMatchObject({
      code: 401,
      type: 'auth_api_key_invalid',
    });
  } finally {
    await neighbour.stop();
  }
});

test('a broker of @strata/client/bus reads with an API key, and keeps what it read for a moment', async () => {
  const { tenant } = cluster;
  const made = await tenant.admin.post('/auth/api-key', { name: 'bus', scopes: ['config:read'] });
  const broker = new ServiceBroker({
    ...strataBroker({
      natsUrl: cluster.environment.NATS_URL!,
      apiKey: (made.body as { api_key: string }).api_key,
      nodeId: 'client-1',
    }),
    logger: false,
  });
  await broker.start();
  try {
    await broker.waitForServices('config-resolver', 60_000);
    const read = (): Promise<{ values: Record<string, unknown> }> =>
      broker.call('config-resolver.resolve', { tenant_id: tenant.id });
    // A busy machine may take longer between the two.
    const first = await eventually(async () => {
      const found = await read();
      expect(await read()).toBe(found);
      return found;
    });
    const { body } = await tenant.viewer.get(`/tenants/${tenant.id}/config/effective`);
    expect(first.values).toEqual((body as { values: object }).values);
    const written = { global_settings: { max_resource_scaling: 7 } };
    await tenant.admin.patch(`/tenants/${tenant.id}/config/risk`, written);
    await delay(1000);
    expect((await read()).values.max_resource_scaling).toBe(7);
  } finally {
    await broker.stop();
  }
});

const nodes = ['config-1', 'config-2', 'gateway-1', 'gateway-2', 'identity-1', 'identity-2'];
const reload = {
  reload_env: true,
  reinit: { configuration_service: true, dynamic_config_service: true },
};
/**
 * What is said of a paused node: it has not answered yet, or the others have already given it up.
 */
const silence = /^(did not answer in 5 s|is not available)$/;
const at = (index: number): Client =>
  new Client(cluster.gateways[index]!.url, cluster.tenant.admin.token);

/** Waits until the gateway is on the bus and serves from memory. */
const isBack = (index: number): Promise<void> =>
  eventually(async () => {
    const { checks } = (await at(index).get('/readyz')).body;
    expect(checks).toMatchObject({ bus: true, feed: true });
  });

/** Waits until each node is on the bus and answers. */
const allAnswer = (): Promise<void> =>
  eventually(async () => {
    const { body } = await cluster.platform.post('/config/reload', { ...reload, dry_run: true });
    expect(body.nodes?.toSorted()).toEqual(nodes);
  });

test('new values of ENV_FILE apply on every node without a restart', async () => {
  const effective = `/tenants/${cluster.tenant.id}/config/effective`;
  expect((await at(1).get(effective)).body.values.http_client_timeout_seconds).toBe(30);
  writeEnvFile(
    'DEFAULT_MAX_COST_IMPACT_AUTO=7.5\nHTTP_CLIENT_TIMEOUT_SECONDS=45\nPORT=1\nLOGLEVEL=info\n',
  );

  const tried = await cluster.platform.post('/config/reload', { ...reload, dry_run: true });
  expect(tried.body).toMatchObject({
    dry_run: true,
    requires_restart: ['PORT'],
    changed_settings: ['DEFAULT_MAX_COST_IMPACT_AUTO', 'HTTP_CLIENT_TIMEOUT_SECONDS', 'PORT'],
  });
  expect((await at(1).get(effective)).body.values.http_client_timeout_seconds).toBe(30);

  const { status, body } = await cluster.platform.post('/config/reload', { reload_env: true });
  expect([status, body.status, body.nodes.sort()]).toEqual([200, 'ok', nodes]);
  expect(body.requires_restart).toEqual(['PORT']);
  const misspelt = 'ENV_FILE: LOGLEVEL is no setting and has no effect. Did you mean LOG_LEVEL?';
  await eventually(async () => expect(logged(cluster.gateways[0]!.output())).toContain(misspelt));
  for (const index of [0, 1])
    expect((await at(index).get(effective)).body.values.http_client_timeout_seconds).toBe(45);
  const made = await cluster.platform.post('/tenants', {
    name: 'After reload',
    admin: { email: 'after@reload.example', password: 'a-long-password-1' },
  });
  const admin = await new Client(cluster.gateways[1]!.url).post('/auth/login', {
    email: 'after@reload.example',
    password: 'a-long-password-1',
  });
  const risk = await new Client(cluster.gateways[1]!.url, admin.body.access_token).get(
    `/tenants/${made.body.id}/config/risk`,
  );
  expect(risk.body.global_settings.max_cost_impact_auto).toBe(7.5);
});

describe('a reload for one tenant', () => {
  const effective = (id: string): string => `/tenants/${id}/config/effective`;
  const reloadFor = async (id: string) => {
    const body = { reload_env: true, invalidate: { tenant_ids: [id] } };
    return (await cluster.platform.post('/config/reload', body)).body;
  };
  /** How often a gateway answered from memory so far. */
  async function hitsOf(client: Client): Promise<number> {
    const { text } = await client.get('/metrics');
    const line = 'strata_cache_hits_total{cache="dynamic_config_service"} ';
    return Number.parseInt(text.split(line)[1]!, 10);
  }
  async function answersFromMemory(
    index: number,
    of: Pick<TenantFixture, 'id' | 'admin'>,
  ): Promise<boolean> {
    const client = new Client(cluster.gateways[index]!.url, of.admin.token);
    const before = await hitsOf(client);
    await client.get(effective(of.id));
    return (await hitsOf(client)) > before;
  }

  test('leaves what others have in memory on each node where no setting changed, and nothing where one did', async () => {
    const { tenant, platform } = cluster;
    const other = await createTenantWith(cluster.gateways[0]!.url, platform, 'Not reloaded');
    const warm = async (): Promise<void> => {
      for (const index of [0, 1])
        for (const each of [tenant, other])
          await eventually(async () => expect(await answersFromMemory(index, each)).toBe(true));
    };
    const named = { all: false, tenant_ids: [tenant.id] };
    // The lease of a gateway may end in between on a busy machine, which then has nothing in memory.
    await eventually(async () => {
      await warm();
      expect((await reloadFor(tenant.id)).invalidated).toEqual(named);
      for (const index of [0, 1]) {
        const found = [
          await answersFromMemory(index, tenant),
          await answersFromMemory(index, other),
        ];
        expect(found).toEqual([false, true]);
      }
    });

    const text = readFileSync(envFile, 'utf8');
    expect(text).toMatch(/^HTTP_CLIENT_TIMEOUT_SECONDS=\d+$/m);
    let seconds = 45;
    // Nodes that hear late of the reload before have read the file again by themselves.
    await eventually(async () => {
      seconds += 1;
      writeEnvFile(text.replace(/(HTTP_CLIENT_TIMEOUT_SECONDS)=\d+/, `$1=${seconds}`));
      await warm();
      expect((await reloadFor(tenant.id)).invalidated).toEqual({ all: true, tenant_ids: [] });
    });
    for (const index of [0, 1]) {
      const client = new Client(cluster.gateways[index]!.url, other.admin.token);
      const { values } = (await client.get(effective(other.id))).body;
      expect(values.http_client_timeout_seconds).toBe(seconds);
    }
    writeEnvFile(text);
    await reloadFor(tenant.id);
  });
});

test('a gateway decides by its own memory, whatever becomes of the service that has the rules', async () => {
  const decide = () =>
    at(0).post(`/tenants/${cluster.tenant.id}/decide`, { action: 'scale', risk_level: 'high' });
  const resolvers = cluster.services.slice(2);
  const decideAlone = async () => {
    for (const node of resolvers) node.process.kill('SIGSTOP');
    try {
      const began = performance.now();
      const { body, headers } = await decide();
      return { body, isStale: headers.has('x-config-stale'), tookMs: performance.now() - began };
    } finally {
      for (const node of resolvers) node.process.kill('SIGCONT');
      await allAnswer();
    }
  };
  // The lease of a gateway may end in between on a busy machine, which then asks the service.
  await eventually(async () => {
    const before = await decide();
    expect([before.status, before.body.decision]).toEqual([200, 'approval_required']);
    const { body, isStale, tookMs } = await decideAlone();
    // Each has a name of its own.
    expect(body).toEqual({ ...before.body, decision_id: body.decision_id });
    expect(isStale).toBe(false);
    // Whoever asks the service waits for a time-out of ten seconds, or until it is given up after
    // six.
    expect(tookMs).toBeLessThan(5500);
  }, 60_000);
});

test('an invalid ENV_FILE changes nothing and says why, without the value', async () => {
  writeEnvFile('DEFAULT_MAX_COST_IMPACT_AUTO=not-a-number-canary\n');
  const { status, body, text } = await cluster.platform.post('/config/reload', {
    reload_env: true,
  });
  expect([status, body.status, body.reloaded_env]).toEqual([207, 'partial', false]);
  expect(body.errors).toHaveLength(nodes.length);
  for (const error of body.errors)
    expect(error).toMatchObject({
      action: 'reload_env',
      message: expect.stringContaining('DEFAULT_MAX_COST_IMPACT_AUTO'),
    });
  expect(text).not.toContain('canary');
  expect(
    (await at(0).get(`/tenants/${cluster.tenant.id}/config/effective`)).body.values
      .http_client_timeout_seconds,
  ).toBe(45);
  writeEnvFile('DEFAULT_MAX_COST_IMPACT_AUTO=15\n');
});

soakTest('a gateway with another BASE_URL says so in its log', async () => {
  const elsewhere = 'http://elsewhere.test';
  // Not the file of the others, which may hold a PORT by now.
  const own = { BASE_URL: elsewhere, ENV_FILE: '' };
  const stray = await cluster.start('gateway-9', ['gateway'], own);
  try {
    const refused = await new Client(stray.url, cluster.tenant.viewer.token).get('/auth/me');
    expect(refused.status).toBe(401);
    const warnings = (text: string): string[] =>
      logged(text).filter((line) => /BASE_URL/.test(line));
    await eventually(async () => {
      expect(warnings(stray.output())).toEqual([
        expect.stringMatching(
          `^Access tokens of ${baseUrl} are refused, since BASE_URL is ${elsewhere} on this node\\.`,
        ),
      ]);
    });
    await new Client(stray.url, cluster.tenant.viewer.token).get('/auth/me');
    expect(warnings(stray.output())).toHaveLength(1);
  } finally {
    await stray.stop();
  }
});

test('a node that does not answer is named, and the others are reloaded', async () => {
  const paused = cluster.gateways[1]!;
  process.kill(paused.pid, 'SIGSTOP');
  try {
    const { status, body } = await cluster.platform.post('/config/reload', reload);
    expect([status, body.status]).toEqual([207, 'partial']);
    expect(body.errors).toEqual([
      {
        node: 'gateway-2',
        action: 'reload',
        message: expect.stringMatching(silence),
      },
    ]);
    expect(body.nodes.sort()).toEqual(nodes.filter((node) => node !== 'gateway-2'));
    expect(body.reinitialized).toEqual(['configuration_service', 'dynamic_config_service']);
  } finally {
    process.kill(paused.pid, 'SIGCONT');
  }
  await isBack(1);
  await eventually(async () => {
    const { body } = await cluster.platform.get('/audit/events?action=config_reloaded&limit=200');
    expect(body.items.at(-1)).toMatchObject({
      actor: { type: 'operator' },
      payload: { request: reload, status: 'partial' },
    });
  });
});

test('a node that stays silent is named when a tenant drops its entries, and the others drop them', async () => {
  const risk = `/tenants/${cluster.tenant.id}/config/risk`;
  await at(0).get(risk);
  // The node that was paused before is well, but the others may not have observed it yet.
  await eventually(async () => {
    const { body } = await cluster.platform.post('/config/reload', { ...reload, dry_run: true });
    expect(body.nodes.sort()).toEqual(nodes);
  });
  const paused = cluster.gateways[1]!;
  process.kill(paused.pid, 'SIGSTOP');
  let requestId: string;
  try {
    const { status, body, headers } = await at(0).post('/configurations/cache/invalidate', {});
    requestId = headers.get('x-request-id')!;
    expect(status).toBe(207);
    expect(body).toMatchObject({
      tenant_id: cluster.tenant.id,
      invalidated: expect.arrayContaining([`risk_config_${cluster.tenant.id}`]),
      nodes: nodes.length - 1,
      errors: [
        {
          node: 'gateway-2',
          action: 'invalidate',
          message: expect.stringMatching(silence),
        },
      ],
    });
  } finally {
    process.kill(paused.pid, 'SIGCONT');
  }
  await isBack(1);
  await eventually(async () => {
    const { body } = await at(0).get('/audit/events?action=config.cache.invalidated&limit=200');
    const event = body.items.find((each: { request_id: string }) => each.request_id === requestId);
    expect(event).toMatchObject({
      actor: { type: 'user' },
      tenant_id: cluster.tenant.id,
      payload: { keys: null, status: 'partial' },
    });
  });
});

soakTest(
  'a reload waits for a silent node longer than REQUEST_TIMEOUT_MS gives other requests',
  async () => {
    const impatient = await cluster.start('gateway-3', ['gateway'], { REQUEST_TIMEOUT_MS: '1500' });
    const platform = new Client(impatient.url, cluster.platform.token);
    const paused = cluster.gateways[1]!;
    try {
      await eventually(async () => expect((await platform.get('/auth/me')).status).toBe(200));
      process.kill(paused.pid, 'SIGSTOP');
      const { status, body } = await platform.post('/config/reload', {});
      expect(status).toBe(207);
      expect(body.errors.map(({ node }: { node: string }) => node)).toEqual(['gateway-2']);
    } finally {
      process.kill(paused.pid, 'SIGCONT');
      await impatient.stop('SIGTERM');
    }
    await isBack(1);
  },
);

describe('platform admins by reload', () => {
  const second = 'second-admin@platform.example';
  const admins = (...emails: string[]): void =>
    writeEnvFile(`PLATFORM_ADMIN_EMAILS=${emails.join(',')}\n`);
  const reloaded = async (): Promise<void> => {
    const { status, text } = await cluster.platform.post('/config/reload', { reload_env: true });
    if (status !== 200) throw new Error(text);
  };
  const everywhere = (token: string): Client[] =>
    cluster.gateways.map(({ url }) => new Client(url, token));
  const statuses = (clients: readonly Client[], path: string): Promise<number[]> =>
    Promise.all(clients.map(async (client) => (await client.get(path)).status));
  let session: string;
  let key: string;
  let tenantId: string;

  beforeAll(async () => {
    const password = 'a-long-password-2';
    const body = { name: 'Second', admin: { email: second, password } };
    tenantId = (await cluster.platform.post('/tenants', body)).body.id;
    await cluster.database.query(
      `UPDATE auth.users SET email_verified = true WHERE email = '${second}'`,
    );
    session = (await signIn(cluster.gateways[0]!.url, second, password)).token!;
    const scopes = ['platform:read', 'config:read'];
    const made = await new Client(cluster.gateways[0]!.url, session).post('/auth/api-key', {
      name: 'platform',
      scopes,
    });
    key = made.body.api_key;
  });
  afterAll(() => writeEnvFile('DEFAULT_MAX_COST_IMPACT_AUTO=15\n'));

  test('one who is added or removed is so on every node, for sessions, keys and streams, when it is answered', async () => {
    const credentials = [...everywhere(session), ...everywhere(key)];
    const refused = credentials.map(() => 403);
    const allowed = credentials.map(() => 200);
    expect(await statuses(credentials, '/tenants')).toEqual(refused);

    admins('admin@example.com', second);
    await reloaded();
    expect(await statuses(credentials, '/tenants')).toEqual(allowed);
    const entry = '/config/global/for-admins';
    expect((await cluster.platform.put(entry, { config_value: 1 })).status).toBe(201);
    // Again and again, so that it is repeated from memory ahead of the routes.
    for (let times = 0; times < 3; times += 1)
      expect(await statuses(credentials, entry)).toEqual(allowed);
    const ofPlatform = await Promise.all(
      credentials.map((client) => watch(client, '/config/watch')),
    );
    const ofTenant = await watch(credentials[1]!, `/tenants/${tenantId}/config/watch`);
    for (const stream of [...ofPlatform, ofTenant])
      await stream.until(({ event }) => event === 'ready');

    admins('admin@example.com');
    await reloaded();
    expect(await statuses(credentials, '/tenants')).toEqual(refused);
    expect(await statuses(credentials, entry)).toEqual(credentials.map(() => 404));
    await cluster.platform.put('/config/global/after-the-removal', { config_value: 1 });
    for (const stream of ofPlatform) {
      const { data } = await stream.until(({ event }) => event === 'closed');
      expect(data).toEqual({ code: 'insufficient_role' });
      expect(stream.changes()).toEqual([]);
    }
    const risk = `/tenants/${tenantId}/config/risk`;
    await credentials[0]!.patch(risk, { global_settings: { max_concurrent_automations: 3 } });
    await ofTenant.until(({ event }) => event === 'config.changed');
    ofTenant.leave();
  });

  test('nodes that were cut off meanwhile make up for the reload', async () => {
    admins('admin@example.com', second);
    await reloaded();
    const scopes = ['platform:read'];
    const keys = await Promise.all(
      Array.from({ length: 6 }, async (_each, index) => {
        const owner = new Client(cluster.gateways[0]!.url, session);
        const made = await owner.post('/auth/api-key', { name: `key ${index}`, scopes });
        return made.body.api_key as string;
      }),
    );
    const credentials = keys.flatMap(everywhere);
    expect(await statuses(credentials, '/tenants')).toEqual(credentials.map(() => 200));
    // From here on known to the gateway that reloads, which then asks nobody who calls.
    expect((await cluster.platform.get('/tenants')).status).toBe(200);
    const cut = ['gateway-2', 'identity-1'].map((name) => cluster.proxies[name]!);
    for (const proxy of cut) proxy.cut();
    try {
      admins('admin@example.com');
      const { status, text } = await cluster.platform.post('/config/reload', { reload_env: true });
      if (status >= 300) throw new Error(text);
    } finally {
      for (const proxy of cut) proxy.mend();
    }
    await isBack(1);
    await eventually(async () =>
      expect(await statuses(credentials, '/tenants')).toEqual(credentials.map(() => 403)),
    );
  });

  test('an address that no one proved makes no one an admin', async () => {
    const unproved = `UPDATE auth.users SET email_verified = false WHERE email = '${second}'`;
    await cluster.database.query(unproved);
    admins('admin@example.com', second);
    await reloaded();
    const credentials = [...everywhere(session), ...everywhere(key)];
    expect(await statuses(credentials, '/tenants')).toEqual(credentials.map(() => 403));
  });
});

test('a node that is off the bus, and reads the feed all the same, delays no write', async () => {
  const path = `/tenants/${cluster.tenant.id}/config/agents/off_the_bus`;
  // Waiting for its polls would take each write half a second. A busy machine may be late for most.
  const quickMs = 400;
  const proxy = cluster.proxies['identity-1']!;
  proxy.cut();
  try {
    // Until it has given its lease back, COHERENCE_FENCE_MS later at most.
    await delay(2500);
    const times: number[] = [];
    const quickest = (): number => Math.min(...times);
    for (let value = 0; value < 60 && !(quickest() < quickMs); value += 1) {
      const began = performance.now();
      const { status } = await at(0).put(path, { custom: { value } });
      expect([200, 201]).toContain(status);
      times.push(performance.now() - began);
    }
    expect(quickest()).toBeLessThan(quickMs);
  } finally {
    proxy.mend();
  }
});

test('what ends a session or a right is refused on every node by the time it is answered', async () => {
  const {
    tenant: { id, emails },
  } = cluster;
  const services = `/tenants/${id}/services`;
  const login = await new Client(cluster.gateways[0]!.url).post('/auth/login', {
    email: emails.operator,
    password: 'member-password-123',
  });
  const operators = cluster.gateways.map(
    ({ url }) => new Client(url, login.body.access_token as string),
  );
  // The tests above cut nodes off, which may still be coming back.
  for (const operator of operators)
    await eventually(async () => expect((await operator.get(services)).status).toBe(200));
  const member = (await at(0).get(`/tenants/${id}/users`)).body.items.find(
    (each: { email: string }) => each.email === emails.operator,
  );
  expect(
    (await at(0).patch(`/tenants/${id}/users/${member.user_id}`, { roles: ['viewer'] })).status,
  ).toBe(200);
  for (const operator of operators)
    expect((await operator.get(services)).body.detail.code).toBe('insufficient_role');
  expect((await operators[0]!.post('/auth/logout')).status).toBe(204);
  for (const operator of operators)
    expect((await operator.get('/auth/me')).body.detail.code).toBe('auth_session_revoked');
});

test('what a service account may do, and its end, hold on every node by the time they are answered', async () => {
  const { id, emails } = cluster.tenant;
  const accounts = `/tenants/${id}/service-accounts`;
  const services = `/tenants/${id}/services`;
  const admin = await signIn(cluster.gateways[0]!.url, emails.tenant_admin!, memberPassword);
  const made = await admin.post(accounts, { name: 'pipeline', roles: ['operator'] });
  const account = `${accounts}/${made.body.id}`;
  const key = await admin.post(`${account}/api-keys`, { name: 'ci' });
  const everywhere = cluster.gateways.map(({ url }) => new Client(url, key.body.api_key));
  const outcomes = () =>
    Promise.all(
      everywhere.map(async (client) => {
        const { status, body } = await client.get(services);
        return status === 200 ? 'ok' : body.detail.code;
      }),
    );
  const all = (outcome: string): string[] => everywhere.map(() => outcome);
  expect(await outcomes()).toEqual(all('ok'));
  const stream = await watch(everywhere[1]!, `/tenants/${id}/config/watch`);
  await stream.until(({ event }) => event === 'ready');
  await admin.patch(account, { roles: ['viewer'] });
  expect(await outcomes()).toEqual(all('insufficient_role'));
  const { data } = await stream.until(({ event }) => event === 'closed');
  expect(data).toEqual({ code: 'insufficient_role' });
  await admin.patch(account, { roles: ['operator'], status: 'disabled' });
  expect(await outcomes()).toEqual(all('auth_api_key_invalid'));
  await admin.patch(account, { status: 'active' });
  expect(await outcomes()).toEqual(all('ok'));
  expect((await admin.delete(account)).status).toBe(204);
  expect(await outcomes()).toEqual(all('auth_api_key_invalid'));
});

test('another tenant, another password and a disabled account hold on every node by the time they are answered', async () => {
  const {
    tenant: { id, emails },
    platform,
  } = cluster;
  const email = emails.viewer!;
  const everywhere = (token: string): Client[] =>
    cluster.gateways.map(({ url }) => new Client(url, token));
  const login = async (password: string): Promise<Client[]> =>
    everywhere(
      (await new Client(cluster.gateways[0]!.url).post('/auth/login', { email, password })).body
        .access_token as string,
    );
  const made = await platform.post('/tenants', { name: 'Elsewhere', admin: { email } });
  expect(made.status).toBe(201);
  const [invited] = await login(memberPassword);
  const [invitation] = (await invited!.get('/auth/invitations')).body.items;
  expect((await invited!.post(`/auth/invitations/${invitation.id}/accept`)).status).toBe(200);
  const [mine, kept, others] = [
    await login('member-password-123'),
    await login('member-password-123'),
    await login('member-password-123'),
  ];

  const paths = [id, made.body.id as string].map(
    (tenantId) => `/tenants/${tenantId}/config/effective`,
  );
  const statuses = async (clients: readonly Client[]): Promise<number[][]> =>
    Promise.all(
      clients.map((client) =>
        Promise.all(paths.map(async (path) => (await client.get(path)).status)),
      ),
    );
  const tenants = mine.map(
    async (client) => (await client.get('/auth/me')).body.tenant.id as string,
  );
  const from = (await Promise.all(tenants))[0] === id ? 0 : 1;
  expect(await statuses(mine)).toEqual(mine.map(() => (from === 0 ? [200, 403] : [403, 200])));
  expect(
    (await mine[1]!.post('/auth/switch-tenant', { tenant_id: from === 0 ? made.body.id : id }))
      .status,
  ).toBe(200);
  expect(await statuses(mine)).toEqual(mine.map(() => (from === 0 ? [403, 200] : [200, 403])));

  for (const client of others) expect((await client.get('/auth/me')).status).toBe(200);
  const changed = await kept[0]!.post('/auth/password/change', {
    current_password: 'member-password-123',
    new_password: 'grapefruit lamp seventy',
  });
  expect(changed.status).toBe(204);
  for (const client of others)
    expect((await client.get('/auth/me')).body.detail.code).toBe('auth_session_revoked');
  for (const client of kept) expect((await client.get('/auth/me')).status).toBe(200);

  const {
    body: { user },
  } = await kept[0]!.get('/auth/me');
  expect((await platform.patch(`/auth/users/${user.id}`, { status: 'disabled' })).status).toBe(200);
  for (const client of kept)
    expect((await client.get('/auth/me')).body.detail.code).toBe('auth_session_revoked');
});

test('what was effective is the same on every node; a rollback and a purge are seen immediately', async () => {
  const { platform, tenant } = cluster;
  const atEach = (client: Client): Client[] =>
    cluster.gateways.map(({ url }) => new Client(url, client.token));
  const writers = { platform: atEach(platform), tenant: atEach(tenant.admin) };
  const made = await comparePast({ tenantId: tenant.id, ...writers }, { writes: 8, seed: 13 });
  expect(made).toBe(8);

  const [one, other] = writers.platform;
  const path = '/config/global/rolled-back';
  const effective = `/tenants/${tenant.id}/config/effective`;
  const values = ['first', 'second'];
  const revisions: number[] = [];
  for (const value of values) {
    const put = await one!.put(path, { config_value: value, is_public: true });
    revisions.push(Number(put.headers.get('x-config-revision')));
  }
  // To each value, by each gateway.
  for (let turn = 0; turn < 4; turn += 1) {
    const index = turn % 2;
    const writer = turn % 3 === 0 ? one! : other!;
    const restored = await writer.post('/config/rollback', { revision: revisions[index] });
    expect(restored.status).toBe(200);
    for (const reader of writers.platform)
      expect((await reader.get(path)).body.config_value).toBe(values[index]);
    for (const reader of writers.tenant)
      expect((await reader.get(effective)).body.values['rolled-back']).toBe(values[index]);
  }

  await one!.put(path, { config_value: 'harmless', is_public: true });
  const { body } = await one!.get(`/config/history/${revisions[1]}`);
  const past = `${effective}?as_of=${body.changed_at}`;
  for (const reader of writers.tenant)
    expect((await reader.get(past)).body.values['rolled-back']).toBe('second');
  const name = { config_type: 'global_config', resource_id: 'rolled-back' };
  const purged = await other!.post('/config/history/purge', { ...name, reason: 'leaked' });
  expect(purged.status).toBe(200);
  for (const reader of writers.tenant) {
    const { body: left } = await reader.get(past);
    expect(left.values).not.toHaveProperty('rolled-back');
    expect(left.as_of).toMatchObject({ withheld: true });
  }
});

test('a gateway and a service that are stopped with SIGTERM under load lose no request', async () => {
  const path = `/tenants/${cluster.tenant.id}/config/agents/drained`;
  const state = { done: false, answered: 0 };
  const lost: string[] = [];
  const [staying, leaving] = cluster.gateways;
  const load = async (lane: number): Promise<void> => {
    for (; !state.done; state.answered += 1) {
      const gateway =
        lane % 2 === 0 || leaving!.process.exitCode !== null || state.done ? staying! : leaving!;
      const client = new Client(gateway.url, cluster.tenant.admin.token);
      try {
        const answer =
          lane < 4
            ? await client.get(path)
            : await client.put(path, { custom: { lane, answered: state.answered } });
        if (![200, 201, 404].includes(answer.status)) lost.push(`${answer.status} ${answer.text}`);
      } catch (error) {
        // A connection that was not accepted carried no request; the front gives it to the other
        // gateway.
        const cause = (error as { cause?: { code?: string } }).cause?.code;
        if (gateway !== leaving || cause !== 'ECONNREFUSED') lost.push(`${String(error)} ${cause}`);
      }
      // Most of them are under way at any moment, and leave the nodes time to end.
      await delay(5);
    }
  };
  const lanes = Array.from({ length: 8 }, (_each, lane) => load(lane));
  await delay(800);
  await eventually(async () => expect(state.answered).toBeGreaterThan(40), 60_000);
  await Promise.all([leaving!.stop('SIGTERM'), cluster.services[0]!.stop('SIGTERM')]);
  await delay(800);
  state.done = true;
  await Promise.all(lanes);
  expect(lost).toEqual([]);
});
