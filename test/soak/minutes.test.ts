/**
 * What takes a minute by the real clock, all of it in the same minute: one of escalation, those that a
 * gateway gives slow clients, and an automation that runs out while the database's clock jumps.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../support/cluster.ts';
import { startPostgres, strataDatabase, type Database, type Server } from '../support/postgres.ts';
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
/** Has a clock of its own, and a Strata. */
let clocked: { readonly server: Server; readonly strata: Running };
let jumped: Promise<void>;

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
  const server = await startPostgres({ ownClock: true });
  clocked = {
    server,
    strata: await startStrata({ DATABASE_URL: server.url, RATE_LIMIT_PER_MINUTE: '0' }),
  };
  jumped = letClockJump();
  // Awaited below, unless something fails before.
  escalated.catch(() => {});
  jumped.catch(() => {});
});
afterAll(async () => {
  await clocked?.strata.stop('SIGKILL');
  await clocked?.server.stop();
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
  const notified = connections.filter(({ client }) => client.isAnswered);
  for (const { received } of notified)
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

async function letClockJump(): Promise<void> {
  const { server, strata: own } = clocked;
  const platform = await signIn(own.url, 'admin@example.com', adminPassword);
  const { admin, id } = await createTenant(own.url, platform, 'Jumps');
  const automations = `/tenants/${id}/automations`;
  const limits = { global_settings: { max_concurrent_automations: 2 } };
  expect((await admin.patch(`/tenants/${id}/config/risk`, limits)).status).toBe(200);
  const startFor = async (seconds: number) => {
    const body = { action: 'scale', risk_level: 'low', ttl_seconds: seconds };
    return (await admin.post(automations, body)).body as { id: string; state: string };
  };
  const stateOf = async (each: { id: string }) =>
    (await admin.get(`${automations}/${each.id}`)).body.state as string;
  // The jumps take eight seconds, and more on a busy machine.
  const short = await startFor(40);
  const long = await startFor(600);
  expect([short.state, long.state]).toEqual(['running', 'running']);
  const began = performance.now();
  for (const seconds of [3600, 0]) {
    // Before and after a notifier has found out, which may be before the clock is known to be set.
    const jumping = server.setClock(seconds);
    for (const until = performance.now() + 4000; performance.now() < until;) {
      expect((await startFor(600)).state).toBe('denied');
      expect([await stateOf(short), await stateOf(long)]).toEqual(['running', 'running']);
    }
    await jumping;
  }
  await eventually(async () => expect(await stateOf(short)).toBe('expired'), 80_000);
  expect(performance.now() - began).toBeGreaterThan(35_000);
  expect(await stateOf(long)).toBe('running');
  expect((await admin.post(`${automations}/${long.id}/heartbeat`)).status).toBe(200);
}

test('a clock of the database that jumps frees no slot, and stops none from running out', async () => {
  await jumped;
});
