/**
 * Nobody holds the event loop: while the largest bodies are taken, stored and given back, others are
 * answered as before. On a quiet machine: beside other tests a ping waits for the processor.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { leastWorstPing } from '../support/pings.ts';
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
let tenant: TenantFixture;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url, RATE_LIMIT_PER_MINUTE: '0' });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Loop');
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

const inCustom = (items: string): string => `{"custom":{"a":${items}}}`;
const list = (count: number, item: (index: number) => string): string =>
  `[${Array.from({ length: count }, (_each, index) => item(index)).join(',')}]`;
const nearlyMebibyte = 1_040_000;
const bodies: readonly [string, string][] = [
  ['one text', inCustom(`"${'x'.repeat(nearlyMebibyte)}"`)],
  ['numbers', inCustom(list(49_000, (index) => String(0.123456789 + index)))],
  ['texts', inCustom(list(49_000, () => '"0123456789abcde"'))],
  ['escapes', inCustom(list(49_000, () => '"\\u0041\\u0042"'))],
  ['lists', inCustom(list(19_000, () => '[]'))],
  [
    'names',
    `{"custom":{${Array.from({ length: 9900 }, (_each, index) => `"n${index}":"${'y'.repeat(90)}"`).join(',')}}}`,
  ],
];

const mostMs = 20;

test.each(bodies)(
  'a mebibyte of %s holds up no one for more than 20 ms',
  async (_name, body) => {
    const put = (): Promise<Response> =>
      fetch(`${strata.url}/tenants/${tenant.id}/config/agents/large`, {
        method: 'PUT',
        headers: {
          authorization: `Bearer ${tenant.admin.token}`,
          'content-type': 'application/json',
        },
        body,
      });
    const send = async (): Promise<void> => {
      // A connection that ends under it, as where the machine stood still for long, is opened again.
      const { status } = await put().catch(put);
      expect(status).toBeLessThan(300);
    };
    expect(await leastWorstPing(strata.url, send, mostMs)).toBeLessThanOrEqual(mostMs);
  },
  120_000,
);

test('a replay of many decisions holds up no one for more than 20 ms', async () => {
  const path = `/tenants/${tenant.id}/decide`;
  const intent = { action: 'scale', risk_level: 'low', cost_impact: 2 };
  const { status, body } = await tenant.admin.post(path, { ...intent, record: true });
  expect(status).toBe(200);
  const copies = 20_000;
  await database.query(
    `INSERT INTO notifier.decisions
       SELECT gen_random_uuid(), tenant_id, decided_at, at, intent, decided,
         decision, rule, service_id, tenant_revision, platform_revision, is_rollback_proven, stale
       FROM notifier.decisions, generate_series(2, $2) WHERE decision_id = $1`,
    [body.decision_id, copies],
  );
  const question = { from: '2020-01-01T00:00:00Z', proposed: { as_of: new Date().toJSON() } };
  const replay = async (): Promise<void> => {
    const found = await tenant.admin.post(`${path}/replay`, question);
    expect(found.body).toMatchObject({ total: copies, complete: true });
  };
  expect(await leastWorstPing(strata.url, replay, mostMs)).toBeLessThanOrEqual(mostMs);
}, 150_000);

test('a tenant of 50,000 members is renamed like one of five', async () => {
  const { id } = await createTenant(strata.url, platform, 'Large');
  await database.query(
    `INSERT INTO tenant_config.members (tenant_id, user_id, roles, groups, status, added_at)
     SELECT $1, gen_random_uuid(), '{viewer}', '{}', 'active', now() FROM generate_series(1, 50000)`,
    [id],
  );
  let renamed = 0;
  const rename = async (): Promise<void> => {
    renamed += 1;
    const { status } = await platform.patch(`/tenants/${id}`, { name: `Large ${renamed}` });
    expect(status).toBe(200);
  };
  expect(await leastWorstPing(strata.url, rename, mostMs)).toBeLessThanOrEqual(mostMs);
}, 120_000);

test('what holds the loop is a figure', async () => {
  const { text } = await platform.get('/metrics');
  expect(text).toMatch(/^nodejs_eventloop_lag_max_seconds \S+$/m);
});
