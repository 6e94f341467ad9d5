/**
 * What is in a row of the database ends no process: each column of each table in turn has a
 * kind, state, version or shape that this release does not know, as after a downgrade or beside a
 * newer node, while it is read over HTTP and by the workers. UNKNOWN_SHAPES says how many shapes of
 * JSON each column has: one here, three in the soak.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../support/cluster.ts';
import { grown } from '../support/grown.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import {
  adminPassword,
  createTenant,
  memberPassword,
  signIn,
  startStrata,
  type Client,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let strata: Running;
let healthy: Receiver;
/** Takes any body, and fails. */
const failing = createServer((request, response) => {
  request.resume().once('end', () => response.writeHead(503).end());
});
let platform: Client;
let odd: TenantFixture;
let well: TenantFixture;

beforeAll(async () => {
  database = await strataDatabase();
  healthy = await startReceiver();
  failing.listen(0, '127.0.0.1');
  await once(failing, 'listening');
  strata = await startStrata({
    DATABASE_URL: database.url,
    RATE_LIMIT_PER_MINUTE: '1000000',
    NETWORK_RATE_LIMIT_PER_MINUTE: '1000000',
    WEBHOOK_ALLOW_HTTP: 'true',
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  odd = await createTenant(strata.url, platform, 'Odd');
  well = await createTenant(strata.url, platform, 'Well');
  for (const [tenant, url] of [
    [odd, `http://127.0.0.1:${(failing.address() as AddressInfo).port}/`],
    [well, healthy.url],
  ] as const)
    await made(
      tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, { webhook: { url } }),
    );
  await filled();
  await grown(database, odd.id);
  // It keeps the audit as it is; what is unknown in it came with another release.
  await database.query('ALTER TABLE audit.events DISABLE TRIGGER append_only');
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await healthy?.close();
  failing.closeAllConnections();
  failing.close();
  await database?.drop();
});

async function made(sent: ReturnType<Client['get']>): Promise<{ readonly id: string }> {
  const answer = await sent;
  if (answer.status >= 300) throw new Error(answer.text);
  return answer.body;
}
const ask = (tenant: TenantFixture, title: string) =>
  made(
    tenant.operator.post(`/tenants/${tenant.id}/approvals`, {
      action: 'scale',
      risk_level: 'low',
      title,
    }),
  );

/** A row, at least, in each table that can have one. */
async function filled(): Promise<void> {
  const at = `/tenants/${odd.id}`;
  const { admin, operator } = odd;
  await made(admin.patch(`${at}/config/risk`, { global_settings: { max_cost_impact_auto: 20 } }));
  await made(admin.put(`${at}/config/bounds`, { max_cost_impact_auto: { maximum: 50 } }));
  await made(admin.put(`${at}/config/agents/scaler`, { default_cpu: '1' }));
  await made(admin.put(`${at}/services/web`, { service_type: 'cloud_run', min_instances: 1 }));
  await made(admin.put(`${at}/projects/shop/config`, {}));
  await made(platform.put('/config/global/greeting', { config_value: 'hello', is_public: true }));
  await made(platform.put('/config/bounds', { max_cost_impact_auto: { maximum: 5000 } }));
  await made(admin.post(`${at}/users`, { email: 'invited@odd.example', roles: ['viewer'] }));
  const robot = await made(admin.post(`${at}/service-accounts`, { name: 'r', roles: ['viewer'] }));
  await made(admin.post(`${at}/service-accounts/${robot.id}/api-keys`, { name: 'k' }));
  await made(admin.post('/auth/api-key', { name: 'mine' }));
  const intent = { action: 'scale', risk_level: 'low', service_id: 'web', cost_impact: 1 };
  await made(operator.post(`${at}/automations`, intent));
  await made(operator.post(`${at}/automations`, { ...intent, cost_impact: 30 }));
  await made(operator.post(`${at}/decide`, { ...intent, record: true }));
  for (const title of ['One', 'Two']) await ask(odd, title);
}

interface Column {
  readonly table: string;
  readonly name: string;
  readonly kind: 'text' | 'texts' | 'json' | 'number';
  readonly keys: readonly string[];
  /** Columns by which rows are of the one tenant; empty where they are everybody's. */
  readonly owners: readonly string[];
}

const kinds: Readonly<Record<string, Column['kind']>> = {
  text: 'text',
  _text: 'texts',
  json: 'json',
  jsonb: 'json',
  int2: 'number',
  int4: 'number',
  int8: 'number',
};

/** All columns that could say something unknown: not those that tell rows apart. */
async function columns(): Promise<Column[]> {
  const rows = await database.query<{
    table: string;
    name: string;
    type: string;
    keys: string[];
    names: string[];
  }>(
    `SELECT format('%I.%I', n.nspname, c.relname) AS table, a.attname AS name, t.typname AS type,
       (SELECT array_agg(k.attname::text) FROM pg_index i JOIN pg_attribute k ON k.attrelid = c.oid AND k.attnum = ANY(i.indkey)
        WHERE i.indrelid = c.oid AND i.indisprimary) AS keys,
       (SELECT array_agg(o.attname::text) FROM pg_attribute o WHERE o.attrelid = c.oid AND o.attnum > 0 AND NOT o.attisdropped) AS names
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
     WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
       AND n.nspname IN ('strata', 'tenant_config', 'global_config', 'auth', 'notifier', 'audit') AND c.relname <> 'migrations'
     ORDER BY 1, a.attnum`,
  );
  return rows.flatMap(({ table, name, type, keys, names }) => {
    const kind = kinds[type];
    if (kind === undefined || keys === null || keys.includes(name)) return [];
    const owners = ['tenant_id', 'user_id'].filter((each) => names.includes(each));
    if (['tenant_config.tenants', 'auth.users'].includes(table)) owners.push('id');
    return [{ table, name, kind, keys, owners }];
  });
}

const shapes = Number(process.env.UNKNOWN_SHAPES ?? 1);
/** What no release has ever written there. */
const unknown: Readonly<Record<Column['kind'], readonly string[]>> = {
  text: [`'~unknown ' || t.ctid::text`],
  texts: [`ARRAY['~unknown']`],
  json: [`'{"~unknown":{"version":99}}'`, `'"~unknown"'`, `'[7,null]'`].slice(0, shapes),
  number: ['-7 - (hashtext(t.ctid::text) & 1023)'],
};

/** Whatever reads the rows: as a person would, and as a worker does in its next round. */
async function everythingReads(): Promise<void> {
  // What is in memory came before.
  await platform.post('/config/reload', { invalidate: {} });
  const at = `/tenants/${odd.id}`;
  const session = signIn(strata.url, odd.emails.operator!, memberPassword).catch(() => undefined);
  const reads = [
    '',
    '/config/effective?explain=true&service_id=web&agent_type=scaler',
    '/config/risk',
    '/config/bounds',
    '/config/agents',
    '/services',
    '/projects',
    '/config/notifications',
    '/config/history',
    '/users',
    '/service-accounts',
    '/approvals',
    '/automations',
    '/decisions',
    '/notifications/deliveries',
    '/contexts',
  ].map((path) => odd.admin.get(at + path));
  const others = ['/audit/events', '/auth/me', '/auth/sessions', '/auth/api-keys'].map((path) =>
    odd.admin.get(path),
  );
  const ofPlatform = ['/config/global', '/config/bounds', '/config/history', '/audit/verify'].map(
    (path) => platform.get(path),
  );
  const writes = [
    odd.admin.post(`${at}/decide`, { action: 'scale', risk_level: 'low', service_id: 'web' }),
    odd.admin.patch(`${at}/services/web`, { min_instances: 2 }),
    odd.operator.post(`${at}/automations`, { action: 'scale', risk_level: 'low' }),
  ];
  const answers = await Promise.all([...reads, ...others, ...ofPlatform, ...writes]);
  await session;
  // An answer in Strata's words, whatever its status: nothing was left hanging.
  for (const { status, body } of answers)
    expect(status < 400 || typeof body.detail.code === 'string').toBe(true);
}

let asked = 0;
/** The work of the other tenant continues: what it asks is delivered. */
async function othersWork(): Promise<void> {
  const title = `Healthy ${(asked += 1)}`;
  await ask(well, title);
  const arrived = new AbortController();
  const late = delay(60_000, undefined, arrived).then(async () => {
    throw new Error(`${title} was not delivered: ${JSON.stringify(await deliveryState())}`);
  });
  try {
    await Promise.race([healthy.wait(({ text }) => text.includes(title)), late]);
  } finally {
    arrived.abort();
  }
}

/** What the database knows of deliveries to the other tenant, and what its sessions wait for. */
const deliveryState = (): Promise<unknown[]> =>
  Promise.all([
    database.query(
      `SELECT d.state, d.round, d.next_attempt_at, d.lease_until, d.reason, e.* FROM notifier.deliveries d
       LEFT JOIN notifier.endpoints e ON e.key = d.endpoint_key WHERE d.tenant_id = $1 AND d.state = 'pending' LIMIT 3`,
      [well.id],
    ),
    database.query(
      `SELECT state, wait_event_type, wait_event, query_start, left(query, 100) AS query FROM pg_stat_activity
       WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()`,
    ),
  ]);

/** Whatever the workers look at is due, so that they meet the rows in their next round. */
const dueNow = (): Promise<unknown> =>
  Promise.all(
    [
      `UPDATE notifier.deliveries SET state = 'pending', fresh = true, round = 0, settled_at = NULL, next_attempt_at = now(), lease = NULL, lease_until = NULL
       WHERE tenant_id = $1`,
      `UPDATE notifier.approvals SET hop = 0, escalates_at = now(), expires_at = now() + interval '1 hour'
       WHERE tenant_id = $1 AND state = 'pending'`,
      `UPDATE notifier.endpoints SET blocked_until = NULL, failures = 0, served_at = now() - interval '1 hour'
       WHERE key IN (SELECT endpoint_key FROM notifier.deliveries WHERE tenant_id = $1)`,
    ].map((text) => database.query(text, [odd.id])),
  );

test('no column of any table ends a process with what is unknown in it, and other tenants continue', async () => {
  const all = await columns();
  expect(all.length).toBeGreaterThan(100);
  const users = (
    await database.query<{ user_id: string }>(
      'SELECT user_id FROM tenant_config.members WHERE tenant_id = $1',
      [odd.id],
    )
  ).map(({ user_id: id }) => id);
  const met: string[] = [];
  for (const { table, name, kind, keys, owners } of all) {
    const own = [odd.id, ...users];
    const isOwn =
      owners.map((each) => `${each}::text = ANY($1)`).join(' OR ') || '$1::text[] IS NOT NULL';
    const columnsKept = [...keys, name].map((each) => `"${each}"`).join(', ');
    await database.query('DROP TABLE IF EXISTS public.kept');
    await database.query(`CREATE TABLE public.kept AS SELECT ${columnsKept} FROM ${table} LIMIT 0`);
    const kept = await database.query(
      `INSERT INTO public.kept SELECT ${columnsKept} FROM ${table} WHERE (${isOwn}) AND "${name}" IS NOT NULL RETURNING 1`,
      [own],
    );
    if (kept.length === 0) continue;
    const same = keys.map((each) => `t."${each}" = k."${each}"`).join(' AND ');
    const put = (value: string): Promise<unknown> =>
      database.query(`UPDATE ${table} t SET "${name}" = ${value} FROM public.kept k WHERE ${same}`);
    for (const value of unknown[kind]) {
      await put(value);
      if (table.startsWith('notifier.')) await dueNow();
      // What is everybody's may stop everybody's work, but for as long as it is there.
      if (owners.length === 0) {
        await everythingReads();
        await put(`k."${name}"`);
        await othersWork();
      } else await Promise.all([everythingReads(), othersWork()]);
      expect([table, name, value, strata.process.exitCode]).toEqual([table, name, value, null]);
    }
    await put(`k."${name}"`);
    met.push(`${table}.${name}`);
  }
  await everythingReads();
  await othersWork();
  expect(met.length).toBeGreaterThan(80);
  expect(strata.process.exitCode).toBeNull();
  await eventually(async () => expect((await platform.get('/healthz')).status).toBe(200));
});
