/**
 * Deleting tenants and accounts: what is refused, what is taken back, and that an erased tenant
 * leaves nothing behind but the hashes of its audit. Three nodes, so that there is memory on both
 * sides of the bus, and the notifier can be stopped while the others erase.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually, serviceNames } from '../support/cluster.ts';
import { operator } from '../support/operator.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { startNats, startRedis, type Process } from '../support/servers.ts';
import { soakTest } from '../support/soak.ts';
import {
  addMember,
  adminPassword,
  Client,
  createTenant,
  memberPassword,
  secretKey,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let bus: Process;
let redis: Process;
let receiver: Receiver;
let environment: Record<string, string>;
let services: Running;
let notifier: Running;
let gateway: Running;
let platform: Client;
let kept: TenantFixture;
let erased: TenantFixture;

/**
 * What is stopped while the others erase: it has rows of tenants, and layers of their configuration
 * in memory.
 */
const stoppedRoles = ['notifier', 'config-resolver'];
const servicesTogether = serviceNames.filter((name) => !stoppedRoles.includes(name));
const startNode = (name: string, roles: readonly string[]): Promise<Running> =>
  startStrata({ ...environment, NODE_ID: name }, roles);

beforeAll(async () => {
  [database, bus, redis, receiver] = await Promise.all([
    strataDatabase(),
    startNats(),
    startRedis(),
    startReceiver(),
  ]);
  environment = {
    DATABASE_URL: database.url,
    NATS_URL: bus.url,
    REDIS_URL: redis.url,
    BASE_URL: 'http://strata.test',
    SECRET_KEY: secretKey,
    RATE_LIMIT_PER_MINUTE: '0',
    WEBHOOK_ALLOW_HTTP: 'true',
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
    LOG_LEVEL: 'warn',
  };
  [services, notifier, gateway] = await Promise.all([
    startNode('services', servicesTogether),
    startNode('notifier', stoppedRoles),
    startNode('gateway', ['gateway']),
  ]);
  platform = await eventually(() => signIn(gateway.url, 'admin@example.com', adminPassword));
  await eventually(async () => expect((await platform.get('/readyz')).body.status).toBe('ready'));
  kept = await createTenant(gateway.url, platform, 'Kept');
  erased = await createTenant(gateway.url, platform, 'Erased');
});
afterAll(async () => {
  for (const node of [gateway, notifier, services]) await node?.stop('SIGKILL');
  await Promise.all([bus?.stop('SIGKILL'), redis?.stop('SIGKILL'), receiver?.close()]);
  await database?.drop();
});

const done = async (answering: Promise<Answer>): Promise<Answer['body']> => {
  const { status, text, body } = await answering;
  if (status >= 300) throw new Error(`${status} ${text}`);
  return body;
};

/** Something of everything that a tenant can have, and what makes nodes remember it. */
async function fill(tenant: TenantFixture, name: string): Promise<void> {
  const { id, admin, operator: member } = tenant;
  const at = `/tenants/${id}`;
  await done(admin.put(`${at}/config/agents/scaler`, { default_region: name }));
  const until = encodeURIComponent(new Date(Date.now() + 3_600_000).toISOString());
  await done(admin.patch(`${at}/config/agents/scaler?until=${until}`, { custom: { n: 1 } }));
  const service = { service_type: 'cloud_run', service_name: name };
  await done(admin.put(`${at}/services/checkout`, service));
  await done(admin.put(`${at}/projects/shop/config`, { name }));
  await done(admin.put(`${at}/config/bounds`, { max_instances: { maximum: 90 } }));
  await done(admin.put(`${at}/config/notifications`, { webhook: { url: receiver.url } }));
  const account = await done(admin.post(`${at}/service-accounts`, { name, roles: ['operator'] }));
  const key = { name, scopes: ['config:read'] };
  await done(admin.post(`${at}/service-accounts/${account.id}/api-keys`, key));
  const issuer = 'https://issuer.example';
  const jwks = { keys: [{ kty: 'RSA', kid: 'a', n: 'AQAB', e: 'AQAB' }] };
  await done(platform.put('/auth/workload-issuers', { issuers: [{ issuer, jwks }] }));
  await done(
    admin.put(`${at}/service-accounts/${account.id}/trust`, {
      rules: [{ issuer, subject: name, roles: ['operator'] }],
    }),
  );
  const { api_key: apiKey } = await done(admin.post('/auth/api-key', key));
  await done(admin.post(`${at}/users`, { email: `late@${name}.example`, roles: ['viewer'] }));
  const provisioned = {
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:User'],
    userName: `provisioned@${name}.example`,
  };
  await done(admin.post(`${at}/scim/v2/Users`, provisioned));
  await done(admin.post(`${at}/scim/v2/Groups`, { displayName: name }));
  const approval = { action: 'scale_up', risk_level: 'low', title: name };
  await done(member.post(`${at}/approvals`, approval));
  const budget = { amount: '1', currency: 'EUR', per: 'month', warn_at: 0.5 };
  await done(admin.put(`${at}/config/budgets`, { all: budget }));
  const christmas = { during: [{ dates: ['12-25'], timezone: 'UTC' }], mode: 'warn' };
  await done(admin.put(`${at}/config/freezes`, { christmas }));
  const siem = { url: receiver.url, paused: true };
  await done(admin.put(`${at}/config/event-destinations`, { siem }));
  const proposed = { action: 'put', path: `${at}/config/agents/proposed`, body: {} };
  await done(
    admin.post(`${at}/config/changesets`, { title: name, reason: name, items: [proposed] }),
  );
  const wish = { action: 'scale', risk_level: 'low', cost_impact: 1 };
  await done(admin.post(`${at}/decide`, { ...wish, record: true }));
  await done(admin.post(`${at}/automations`, wish));
  await done(admin.put(`${at}/config/change-policy`, { keys: ['of_no_document'] }));
  await done(
    platform.post('/auth/sso/providers', {
      name,
      issuer: `https://login.${name}.example`,
      client_id: 'strata',
      client_secret: 'a secret of the provider',
      tenant_id: id,
      domains: [{ domain: `${name}.example`, verified: false }],
      redirect_uris: ['https://strata.example/callback'],
    }),
  );
  await database.query(
    `INSERT INTO auth.last_used_tenants SELECT id, $1, now() FROM auth.users WHERE email = $2`,
    [id, tenant.emails.viewer],
  );
  await database.query(
    `INSERT INTO auth.passkeys (id, user_id, credential_id, public_key, counter, aaguid, transports,
       backup_eligible, backed_up, confined_to, created_at)
     SELECT gen_random_uuid(), id, $2, '', 0, id, '{}', false, false, $1, now()
     FROM auth.users WHERE email = $2`,
    [id, tenant.emails.viewer],
  );
  await database.query(
    `INSERT INTO tenant_config.change_set_notices VALUES (gen_random_uuid(), $1, '{}', 'infinity')`,
    [id],
  );
  await database.query(
    `INSERT INTO tenant_config.visits
     SELECT $1, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'a ticket', now(), now(), now()`,
    [id],
  );
  await database.query(
    `INSERT INTO notifier.slack_messages SELECT tenant_id, id, 'C0', '1.1' FROM notifier.approvals WHERE tenant_id = $1 LIMIT 1`,
    [id],
  );
  await database.query(
    `INSERT INTO notifier.slack_leases VALUES ($1, gen_random_uuid(), 'infinity')`,
    [id],
  );
  await done(new Client(gateway.url, apiKey).get(`${at}/config/risk`));
  for (const read of ['config/risk', 'config/agents/scaler', 'services/checkout', 'config/bounds'])
    await done(admin.get(`${at}/${read}`));
  await done(admin.get(`${at}/config/effective?agent_type=scaler&service_id=checkout`));
  // What does not exist is remembered, too.
  await admin.get(`${at}/services/none`);
}

/** Those that `fill` makes are counted within seconds. */
const writesAreCounted = ({ id }: TenantFixture): Promise<void> =>
  eventually(async () => {
    const counted = 'SELECT coalesce(sum("all"), 0)::int AS all FROM tenant_config.write_figures';
    const [row] = await database.query<{ all: number }>(`${counted} WHERE tenant_id = $1`, [id]);
    expect(row!.all).toBe(10);
  });

/**
 * Every row of the database that has this text in it, by table. From the catalog: a table that is
 * added is looked at. Checkpoints, which are numbers and hashes, are made whenever an hour ends.
 */
async function rowsWith(text: string): Promise<Record<string, string[]>> {
  const tables = await database.query<{ name: string }>(
    `SELECT format('%I.%I', table_schema, table_name) AS name FROM information_schema.tables
     WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')
       AND table_schema || '.' || table_name <> 'audit.checkpoints'`,
  );
  expect(tables.length).toBeGreaterThan(30);
  const found = await Promise.all(
    tables.map(async ({ name }) => {
      const rows = await database.query<{ row: string }>(
        `SELECT t::text AS row FROM ${name} t WHERE strpos(t::text, $1) > 0 ORDER BY 1`,
        [text],
      );
      return [name, rows.map(({ row }) => row)] as const;
    }),
  );
  return Object.fromEntries(found.filter(([, rows]) => rows.length > 0));
}

const keysInMemory = async (text: string): Promise<string> => {
  const { code, out, err } = await operator(environment, ['cache', 'keys', '--match', text]);
  expect([code, err]).toEqual([0, expect.any(String)]);
  return out;
};
/** What its administrator is told, byte for byte. */
async function answersTo({ id, admin }: TenantFixture): Promise<Record<string, string>> {
  const paths = [
    'config/risk',
    'config/agents/scaler',
    'services/checkout',
    'projects/shop/config',
    'config/bounds',
    'config/notifications',
    'config/effective?agent_type=scaler&service_id=checkout',
    'config/history',
    'users',
    'service-accounts',
    'approvals',
    'automations',
    'decisions',
    'config/changesets',
    'notifications/deliveries',
  ];
  const answers = await Promise.all(
    [...paths.map((path) => `/tenants/${id}/${path}`), '/audit/events?limit=200'].map(
      async (path): Promise<[string, string]> => {
        const { status, headers, text } = await admin.get(path);
        return [path, `${status} ${headers.get('etag')} ${text}`];
      },
    ),
  );
  for (const [, answer] of answers) expect(answer).toMatch(/^200 /);
  return Object.fromEntries(answers);
}

/**
 * Which services have confirmed that they erased what they had of the tenant; none where the tenant
 * is gone.
 */
async function confirmedBy(id: string): Promise<readonly string[]> {
  const [row] = await database.query<{ erased_by: string[] | null }>(
    'SELECT erased_by FROM tenant_config.tenants WHERE id = $1',
    [id],
  );
  return row?.erased_by ?? [];
}

const count = async (sql: string): Promise<number> => (await database.query(sql)).length;
const nothingWaits = () =>
  eventually(async () => {
    expect(await count('SELECT FROM strata.outbox')).toBe(0);
    expect(await count(`SELECT FROM notifier.deliveries WHERE state = 'pending'`)).toBe(0);
  });
const becomesDue = (id: string) =>
  database.query(
    `UPDATE tenant_config.tenants SET deletion_asked_at = deletion_asked_at - interval '31 days' WHERE id = $1`,
    [id],
  );

test('a tenant is deleted once it is disabled and thirty days have passed; enabling it takes that back', async () => {
  const at = `/tenants/${kept.id}`;
  const refused = await platform.delete(at);
  expect([refused.status, refused.body.detail.code]).toEqual([409, 'tenant_not_disabled']);
  expect((await kept.admin.delete(at)).body.detail.code).toBe('insufficient_role');
  expect((await platform.get(at)).body.erase_at).toBeNull();

  await done(platform.patch(at, { status: 'disabled' }));
  const asked = await platform.delete(at);
  expect([asked.status, asked.body.status]).toEqual([202, 'disabled']);
  const days = (Date.parse(asked.body.erase_at) - Date.now()) / 86_400_000;
  expect(days).toBeGreaterThan(29.9);
  expect(days).toBeLessThan(30.1);
  expect((await platform.delete(at)).body).toEqual(asked.body);
  expect((await platform.get(at)).body).toEqual(asked.body);
  expect((await kept.admin.get(`${at}/config/risk`)).body.detail.code).toBe('auth_tenant_disabled');

  const back = await platform.patch(at, { status: 'active' });
  expect([back.status, back.body.erase_at]).toEqual([200, null]);
  await becomesDue(kept.id);
  expect((await kept.admin.get(`${at}/config/risk`)).status).toBe(200);
});

test('an erased tenant leaves no row and nothing in memory but the hashes of its audit, and others as they are', async () => {
  await fill(kept, 'kept');
  await fill(erased, 'erased');
  for (const tenant of [kept, erased]) await writesAreCounted(tenant);
  await nothingWaits();
  const before = await rowsWith(erased.id);
  // The test is worth something only where there was something in every table that knows tenants.
  const knowing = await database.query<{ name: string }>(
    `SELECT DISTINCT table_schema || '.' || table_name AS name FROM information_schema.columns
     WHERE column_name IN ('tenant_id', 'confined_to') AND table_schema NOT IN ('pg_catalog', 'information_schema')
       -- The platform's change sets are no tenant's, and of one form with those of tenants.
       AND table_schema || '.' || table_name <> 'global_config.change_sets'`,
  );
  expect(knowing.filter(({ name }) => !(name in before))).toEqual([]);
  const remembered = await keysInMemory(erased.id);
  expect(remembered).toContain(`risk_config_${erased.id}`);
  for (const node of ['notifier', 'gateway']) expect(remembered).toContain(node);
  const { chains } = (await platform.get(`/audit/verify?tenant_id=${erased.id}`)).body;

  await done(platform.patch(`/tenants/${erased.id}`, { status: 'disabled' }));
  await done(platform.delete(`/tenants/${erased.id}`));
  await nothingWaits();
  const others = await rowsWith(kept.id);
  const accounts = await database.query('SELECT * FROM auth.users ORDER BY id');
  const answers = await answersTo(kept);

  // A service that does not run is waited for: nothing says that the tenant is erased while it has
  // something of it.
  process.kill(notifier.pid, 'SIGSTOP');
  try {
    await becomesDue(erased.id);
    await eventually(async () => expect(await confirmedBy(erased.id)).toEqual(['auth']), 60_000);
    // The erasure is looked at each second.
    await delay(3000);
    expect(await confirmedBy(erased.id)).toEqual(['auth']);
    const tables = ['notifier.approvals', 'tenant_config.tenants'];
    expect(Object.keys(await rowsWith(erased.id))).toEqual(expect.arrayContaining(tables));
    const said = await platform.get(`/audit/events?action=tenant.erased&target=${erased.id}`);
    expect(said.body.items).toEqual([]);
  } finally {
    process.kill(notifier.pid, 'SIGCONT');
  }
  await eventually(async () => {
    expect(await count(`SELECT FROM audit.erased_chains WHERE erased_at IS NOT NULL`)).toBe(1);
  }, 60_000);
  await nothingWaits();

  const left = await rowsWith(erased.id);
  expect(Object.keys(left).sort()).toEqual([
    'audit.chains',
    'audit.erased_chains',
    'audit.erased_links',
    'audit.events',
  ]);
  // Of the platform's chain, and without a word of what was in it.
  const received = await database.query<{ chain: string; action: string; payload: unknown }>(
    'SELECT chain, action, payload FROM audit.events WHERE target = $1 ORDER BY seq',
    [erased.id],
  );
  const links = left['audit.erased_links']!.length;
  expect(links).toBeGreaterThanOrEqual(chains[0].events + 2);
  expect(left['audit.events']).toHaveLength(2);
  expect(received).toEqual([
    { chain: 'platform', action: 'tenant.erased', payload: {} },
    {
      chain: 'platform',
      action: 'audit.chain_erased',
      payload: { events: links, head: expect.stringMatching(/^[0-9a-f]{64}$/) },
    },
  ]);
  expect(
    await count(
      'SELECT FROM auth.refresh_tokens t WHERE NOT EXISTS (SELECT FROM auth.sessions WHERE id = t.session_id)',
    ),
  ).toBe(0);
  expect(
    await count(
      'SELECT FROM notifier.attempts a WHERE NOT EXISTS (SELECT FROM notifier.deliveries WHERE id = a.delivery_id)',
    ),
  ).toBe(0);
  expect(await keysInMemory(erased.id)).not.toContain(erased.id);

  expect(await rowsWith(kept.id)).toEqual(others);
  expect(await answersTo(kept)).toEqual(answers);
  expect(await database.query('SELECT * FROM auth.users ORDER BY id')).toEqual(accounts);
  expect((await kept.admin.get(`/tenants/${kept.id}/config/agents/scaler`)).status).toBe(200);
  expect((await platform.get(`/tenants/${erased.id}`)).status).toBe(404);
  expect((await platform.patch(`/tenants/${erased.id}`, { status: 'active' })).status).toBe(404);
  expect((await erased.admin.get('/auth/me')).status).toBe(401);
});

test('the proof of an erased tenant holds, and breaks where a hash is changed', async () => {
  const verify = async () => (await platform.get(`/audit/verify?tenant_id=${erased.id}`)).body;
  const whole = await verify();
  expect(whole).toMatchObject({
    valid: true,
    chains: [{ tenant_id: erased.id, erased_at: expect.any(String), events: expect.any(Number) }],
  });
  const everything = (await platform.get('/audit/verify')).body;
  expect([everything.valid, everything.next_cursor]).toEqual([true, null]);
  expect(everything.chains).toContainEqual(whole.chains[0]);
  expect((await platform.get(`/audit/events?tenant_id=${erased.id}`)).body.items).toEqual([]);

  const { events } = whole.chains[0];
  const change = (set: string, seq: number) =>
    database.query(`UPDATE audit.erased_links SET ${set} WHERE chain = $1 AND seq = $2`, [
      erased.id,
      seq,
    ]);
  await change(`hash = reverse(hash)`, events);
  expect(await verify()).toMatchObject({ valid: false, chains: [{ broken_at: { seq: events } }] });
  await change(`hash = reverse(hash)`, events);
  expect((await verify()).valid).toBe(true);
  await database.query('DELETE FROM audit.erased_links WHERE chain = $1 AND seq = 2', [erased.id]);
  expect(await verify()).toMatchObject({ valid: false, chains: [{ broken_at: { seq: 2 } }] });
});

/** Where an id is, but for the feed of changes, which has it for fifteen minutes. */
const tablesWithId = async (id: string): Promise<string[]> =>
  Object.keys(await rowsWith(id))
    .filter((name) => name !== 'strata.changes')
    .sort();

const userIdOf = async (email: string): Promise<string> =>
  (await platform.get(`/auth/users?email=${email}`)).body.items[0].id;

test('an account that is erased leaves its id without a name, and nothing that it could be entered with', async () => {
  const email = 'gone@kept.example';
  const at = `/tenants/${kept.id}`;
  const member = { email, roles: ['tenant_admin'] };
  const { user_id: id, client } = await addMember(kept.admin, kept.id, member);
  await done(client.patch(`${at}/config/agents/scaler`, { default_region: 'theirs' }));
  const key = { name: 'k', scopes: ['config:read'] };
  const { api_key: apiKey } = await done(client.post('/auth/api-key', key));
  const withKey = new Client(gateway.url, apiKey);
  const entries = async () =>
    (await kept.admin.get(`${at}/config/history?limit=200`)).body.items.filter(
      ({ changed_by }: { changed_by: string }) => changed_by === id,
    );
  expect(await entries()).toEqual([expect.objectContaining({ changed_by_name: email })]);
  expect((await withKey.get(`${at}/config/risk`)).status).toBe(200);
  const author = async () => {
    const { headers } = await kept.admin.get(`${at}/config/agents/scaler`);
    return [headers.get('x-updated-by'), headers.get('x-updated-by-name')];
  };
  expect(await author()).toEqual([id, encodeURIComponent(email)]);

  expect((await kept.admin.delete(`/auth/users/${id}`)).body.detail.code).toBe('insufficient_role');
  expect((await platform.delete(`/auth/users/${id}`)).status).toBe(204);
  expect((await client.get('/auth/me')).status).toBe(401);
  expect((await withKey.get(`${at}/config/risk`)).status).toBe(401);
  const login = { email, password: memberPassword };
  const refused = await new Client(gateway.url).post('/auth/login', login);
  expect([refused.status, refused.body.detail.code]).toEqual([401, 'auth_invalid_credentials']);
  const { items } = (await kept.admin.get(`${at}/users`)).body;
  expect(items.map((each: { user_id: string }) => each.user_id)).not.toContain(id);
  expect((await platform.get(`/auth/users?email=${email}`)).body.items).toEqual([]);
  expect((await platform.delete(`/auth/users/${id}`)).status).toBe(404);

  await nothingWaits();
  // What the audit's events say, their hashes hold.
  expect(Object.keys(await rowsWith(email))).toEqual(['audit.events']);
  expect(await tablesWithId(id)).toEqual([
    'audit.events',
    'tenant_config.agent_configurations',
    'tenant_config.configuration_history',
    'tenant_config.key_changes',
    'tenant_config.membership_history',
  ]);
  expect(await entries()).toEqual([expect.objectContaining({ changed_by_name: null })]);
  expect(await author()).toEqual([id, null]);
  expect((await platform.get('/audit/verify')).body.chains).toContainEqual(
    expect.objectContaining({ tenant_id: kept.id, head: expect.any(String) }),
  );
  // The address is free: whoever has it next is somebody else.
  const next = await addMember(kept.admin, kept.id, member);
  expect(next.user_id).not.toBe(id);
});

test('no one erases their own account, nor the last that administers the platform', async () => {
  const id = await userIdOf('admin@example.com');
  const own = await platform.delete(`/auth/users/${id}`);
  expect([own.status, own.body.detail.code]).toEqual([409, 'conflict']);
  const last = await operator(environment, ['call', 'auth.users.delete', `{"user_id":"${id}"}`]);
  expect([last.code, last.err]).toEqual([1, expect.stringContaining('last account')]);
  expect((await platform.get('/auth/me')).status).toBe(200);
});

soakTest('an erasure of an account that was cut off is finished by the next start', async () => {
  const { user_id: id } = await addMember(kept.admin, kept.id, {
    email: 'cut-off@kept.example',
    roles: ['viewer'],
  });
  // As a node leaves it that dies right after the first of its commits.
  await database.query(
    `UPDATE auth.users SET erasing_since = now(), status = 'disabled', email = 'erased ' || id WHERE id = $1`,
    [id],
  );
  await services.stop();
  services = await startNode('services', servicesTogether);
  await eventually(async () => {
    expect(await tablesWithId(id)).toEqual(['audit.events', 'tenant_config.membership_history']);
  }, 30_000);
});
