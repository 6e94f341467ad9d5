/**
 * What takes a minute by the real clock, all of it in the same minute: one of escalation, and those
 * that a gateway gives slow clients.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { strataDatabase, type Database } from '../support/postgres.ts';
import { startReceiver, type Received, type Receiver } from '../support/receiver.ts';
import { lastAnswer, open, slowClients } from '../support/slow-clients.ts';
import {
  adminPassword,
  Client,
  createTenant,
  signIn,
  startStrata,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

let database: Database;
let strata: Running;
let tenant: TenantFixture;
let receiver: Receiver;
let askedAt: number;
/** What is told of an approval that nobody decides, first and last. */
let escalated: Promise<Received[]>;

beforeAll(async () => {
  database = await strataDatabase();
  receiver = await startReceiver();
  strata = await startStrata({
    DATABASE_URL: database.url,
    LOG_LEVEL: 'warn',
    WEBHOOK_ALLOW_HTTP: 'true',
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
  });
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Minutes');
  const { status } = await tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, {
    webhook: { url: receiver.url },
    approver_groups: { risk_levels: { high: ['sre', 'leads'] } },
    escalation: { escalation_window_minutes: 1, max_hops: 0, poll_interval_seconds: 5 },
  });
  expect(status).toBeLessThan(300);
  askedAt = performance.now();
  const asked = await tenant.operator.post(`/tenants/${tenant.id}/approvals`, {
    action: 'scale',
    risk_level: 'high',
    title: 'Scale up',
  });
  expect(asked.status).toBe(202);
  escalated = receiver.wait(({ body }) => body.data.approval_id === asked.body.id, 2);
  // Awaited below, unless something fails before.
  escalated.catch(() => {});
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await receiver?.close();
  await database?.drop();
});

test('400 slow, silent and half-open clients are gone within 70 s, and a stream continues', async () => {
  const { hostname, port } = new URL(strata.url);
  const kinds = Object.values(slowClients);
  const connections = Array.from({ length: 400 }, (_each, index) => {
    const client = kinds[index % kinds.length]!;
    return { client, ...open(client, Number(port), hostname) };
  });
  const stream = await fetch(`${strata.url}/tenants/${tenant.id}/config/watch`, {
    headers: { authorization: `Bearer ${tenant.admin.token}` },
  });
  const events = stream.body!.getReader();
  await events.read();

  const honest: number[] = [];
  const wrong = { email: 'a@b.example', password: 'not-the-password' };
  // A busy machine has some more.
  const until = performance.now() + 95_000;
  while (performance.now() < until) {
    const began = performance.now();
    const { status } = await new Client(strata.url).post('/auth/login', wrong);
    honest.push(performance.now() - began);
    expect([401, 429]).toContain(status);
    const isOver = connections.every(({ endedAfter }) => endedAfter() !== undefined);
    if (isOver) break;
    await delay(1000);
  }
  expect(Math.max(...honest)).toBeLessThan(25_000);
  const open70 = connections.filter(({ endedAfter }) => endedAfter() === undefined);
  expect(open70).toEqual([]);
  const told = connections.filter(({ client }) => client.isTold);
  for (const { received } of told)
    expect(lastAnswer(received())).toEqual({ status: 408, code: 'request_timeout' });

  const [change] = await Promise.all([
    events.read(),
    tenant.admin.patch(`/tenants/${tenant.id}/config/risk`, {
      global_settings: { max_cost_impact_auto: 7 },
    }),
  ]);
  expect(change.done).toBe(false);
  await events.cancel();
});

test('a window of a minute: a hop is at most a poll interval late', async () => {
  const [, last] = await escalated;
  expect(last!.body.type).toBe('approval.exhausted');
  const lasted = last!.at - askedAt;
  expect(lasted).toBeGreaterThan(59_900);
  // A busy machine has some seconds more.
  expect(lasted).toBeLessThan(60_000 + 5000 + 20_000);
});
