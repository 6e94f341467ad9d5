/**
 * Automations while the nodes that answer for them are killed: never more running than the limit, and
 * none leaked beyond its time; never more spent than the budget by a cent; each redeemed once, and after
 * an answered stop not at all. Judged by the rows and the audit at the end, whose times are the
 * database's, so that no moment in between goes unseen. REDEEM_KILLS makes the last longer, as
 * `npm run test:soak` does.
 */
import { afterAll, beforeAll, beforeEach, expect, jest, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually, killed, startCluster, type Cluster } from '../support/cluster.ts';
import { grown } from '../support/grown.ts';
import {
  Client,
  createTenant,
  type Answer,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

const redeemKills = Number(process.env.REDEEM_KILLS ?? 4);
jest.setTimeout(600_000 + redeemKills * 10_000);
const askers = 64;
let cluster: Cluster;
let tenant: TenantFixture;
let admin: Client;
const nodes: Running[] = [];
const start = (name: string): Promise<Running> =>
  eventually(() => cluster.start(name, ['notifier']), 120_000);

beforeAll(async () => {
  cluster = await startCluster({
    gateways: 2,
    environment: { REQUEST_TIMEOUT_MS: '2500', RATE_LIMIT_PER_MINUTE: '0' },
  });
  nodes.push(...(await Promise.all(['notifier-1', 'notifier-2'].map(start))));
});
afterAll(() => cluster?.stop());
/** Slots and money are counted in a tenant, so each test has its own. */
let tenants = 0;
beforeEach(async () => {
  tenants += 1;
  const { platform, database } = cluster;
  tenant = await createTenant(platform.url, platform, `Killed ${tenants}`);
  ({ admin } = tenant);
  await grown(database, tenant.id);
});

const tenantPath = (rest: string): string => `/tenants/${tenant.id}/${rest}`;
/** Repeats a request that no node answers, until one does. */
const insist = (work: () => Promise<Answer>): Promise<Answer> =>
  eventually(async () => {
    const given = await work();
    if (given.status >= 500) throw new Error(given.text);
    return given;
  }, 120_000);

/** While `work` is done, four times one of the two nodes. */
async function killInTurn(everyMs: number, work: Promise<unknown>): Promise<void> {
  for (let kill = 0; kill < 4; kill += 1) {
    await delay(everyMs);
    const which = kill % 2;
    await killed(nodes[which]!);
    nodes[which] = await start(`notifier-${which + 1}`);
  }
  await work;
}

const limit = 5;
const ttl = 5;

/** Asks until it runs, or does not, and then finishes, or is never observed again. */
async function automate(index: number): Promise<void> {
  const risk = index % 3 === 0 ? 'high' : 'low';
  const body = {
    action: 'scale',
    risk_level: risk,
    ttl_seconds: ttl,
    idempotency_key: `asker-${index}`,
  };
  await delay(100 * index);
  const asked = await insist(() => admin.post(tenantPath('automations'), body));
  expect([asked.status, asked.text]).toEqual([201, expect.any(String)]);
  const { id, approval_id: approval } = asked.body;
  const at = tenantPath(`automations/${id}`);
  if (approval) {
    const decided = await insist(() =>
      tenant.operator.post(tenantPath(`approvals/${approval}/decision`), {
        decision: 'approve',
      }),
    );
    // 409 where the answer to the first try was lost.
    expect([200, 409]).toContain(decided.status);
    await eventually(async () => {
      const { body: now } = await insist(() => admin.get(`${at}?wait=1`));
      if (now.state.startsWith('waiting')) throw new Error(`${id} is ${now.state}`);
    }, 240_000);
  }
  const isForgotten = index % 4 === 0;
  if (isForgotten) return;
  await delay(200);
  await insist(() => admin.post(`${at}/finish`, { outcome: 'done' }));
}

interface Row {
  readonly state: string;
  readonly started: number | null;
  readonly ended: number | null;
}

/** The most that ran at once, from the times of the rows. */
function mostAtOnce(rows: readonly Row[]): number {
  const ran = rows.filter(({ started }) => started !== null);
  const counts = ran.map(
    ({ started: at }) =>
      ran.filter(({ started, ended }) => started! <= at! && (ended === null || ended > at!)).length,
  );
  return Math.max(...counts);
}

test('64 askers on two nodes that are killed in turn: never more than the limit, none leaked', async () => {
  const limits = { global_settings: { max_concurrent_automations: limit } };
  await insist(() => admin.patch(tenantPath('config/risk'), limits));
  const asking = Promise.all(Array.from({ length: askers }, (_each, index) => automate(index)));
  await killInTurn(1200, asking);

  const rows = () =>
    cluster.database.query<Row>(
      `SELECT state, extract(epoch FROM started_at)::float8 AS started, extract(epoch FROM ended_at)::float8 AS ended
       FROM notifier.automations WHERE tenant_id = $1`,
      [tenant.id],
    );
  const live = ['waiting_approval', 'waiting_slot', 'running'];
  const settled = await eventually(
    async () => {
      const found = await rows();
      const left = found.filter(({ state }) => live.includes(state));
      if (left.length > 0) throw new Error(`${left.length} have not ended`);
      return found;
    },
    (ttl + 60) * 1000,
  );
  expect(settled).toHaveLength(askers);
  expect(mostAtOnce(settled)).toBeLessThanOrEqual(limit);
  const ran = settled.filter(({ started }) => started !== null);
  expect(ran.length).toBeGreaterThan(limit);
  // With room for a busy machine: one that is leaked does not end at all.
  const lasted = ran.map(({ started, ended }) => ended! - started!);
  expect(lasted.filter((seconds) => seconds > ttl + 45)).toEqual([]);
  expect(settled.some(({ state }) => state === 'expired')).toBe(true);
});

const amount = 1000;
const costs = 10;
const each = 6;

/** Starts some, one after the other, and finishes every other one for half of what it held. */
async function spend(asker: number): Promise<void> {
  for (let count = 0; count < each; count += 1) {
    const body = {
      action: 'scale',
      risk_level: 'low',
      cost_impact: costs,
      ttl_seconds: 3600,
      idempotency_key: `${asker}-${count}`,
    };
    const started = await insist(() => admin.post(tenantPath('automations'), body));
    expect([started.status, started.text]).toEqual([201, expect.any(String)]);
    const { id, state } = started.body;
    if (state !== 'running' || (asker + count) % 2 === 0) continue;
    const ended = { outcome: 'done', actual_cost: costs / 2 + 0.01 };
    const finished = await insist(() => admin.post(tenantPath(`automations/${id}/finish`), ended));
    expect([finished.status, finished.text]).toEqual([200, expect.any(String)]);
  }
}

interface Event {
  readonly action: string;
  readonly target: string;
  readonly payload: { readonly cost_impact: number; readonly actual_cost?: number };
}

test('64 askers on two nodes that are killed in turn: never over by a cent, each charged once', async () => {
  const limits = { global_settings: { max_concurrent_automations: 1000 } };
  const limited = await insist(() => admin.patch(tenantPath('config/risk'), limits));
  expect(limited.status).toBe(200);
  const budget = { amount: String(amount), currency: 'EUR', per: 'month' };
  await insist(() => admin.put(tenantPath('config/budgets'), { all: budget }));

  const asking = Promise.all(Array.from({ length: askers }, (_each, index) => spend(index)));
  await killInTurn(1500, asking);

  // In cents. The order in the ledger is that of the lock: what was started fits in any order.
  const held = new Map<string, number>();
  let spent = 0;
  const events = await eventually(async () => {
    const rows = await cluster.database.query<{ event: Event }>(
      `SELECT json_build_object('action', action, 'target', target, 'payload', payload) AS event
       FROM audit.events WHERE tenant_id = $1 AND action LIKE 'automation.%' ORDER BY seq`,
      [tenant.id],
    );
    const [waiting] = await cluster.database.query<{ count: number }>(
      'SELECT count(*)::int AS count FROM strata.outbox',
    );
    if (waiting!.count > 0) throw new Error(`${waiting!.count} events are not in the audit yet`);
    return rows.map(({ event }) => event);
  }, 120_000);
  for (const { action, target, payload } of events) {
    if (action === 'automation.started') {
      expect(held.has(target)).toBe(false);
      held.set(target, payload.cost_impact * 100);
    }
    if (action === 'automation.finished') {
      spent += Math.round(payload.actual_cost! * 100);
      held.delete(target);
    }
  }
  const holds = [...held.values()].reduce((sum, one) => sum + one, 0);
  expect(spent + holds).toBeLessThanOrEqual(amount * 100);
  expect(spent).toBeGreaterThan(0);
  // Refused for want of money, not for want of askers.
  expect(events.filter(({ action }) => action === 'automation.denied').length).toBeGreaterThan(0);
  expect(amount * 100 - spent - holds).toBeLessThan(costs * 100);

  const { body } = await insist(() => admin.get(tenantPath('budgets/usage')));
  const cents = (text: string): number => Math.round(Number(text) * 100);
  expect([cents(body.items[0].spent), cents(body.items[0].held)]).toEqual([spent, holds]);
});

async function begin(key: string): Promise<{ readonly id: string; readonly grant: string }> {
  const body = { action: 'scale', risk_level: 'low', ttl_seconds: 600, idempotency_key: key };
  const { body: made } = await insist(() => admin.post(tenantPath('automations'), body));
  // Of a repeated start the answer may be of the first.
  const { body: running } = await insist(() => admin.get(tenantPath(`automations/${made.id}`)));
  return running;
}

/** The statuses that executors were answered with: each asks until it is told. */
const redeemAtOnce = ({ id, grant }: { readonly id: string; readonly grant: string }) =>
  Promise.all(
    cluster.gateways.map(async ({ url }, index) => {
      const client = new Client(url, admin.token);
      const body = { grant, executor: `executor-${index}` };
      return (await insist(() => client.post(tenantPath(`automations/${id}/redeem`), body))).status;
    }),
  );

test('two executors on two nodes redeem an action once, however often nodes are killed', async () => {
  const received: (readonly number[])[] = [];
  const ids: string[] = [];
  for (let kill = 0; kill < redeemKills; kill += 1) {
    const automation = await begin(`kill-${kill}`);
    ids.push(automation.id);
    const redeeming = redeemAtOnce(automation);
    // Before, within and after the transaction that redeems.
    await delay((kill * 7) % 40);
    const which = kill % 2;
    await killed(nodes[which]!);
    const starting = start(`notifier-${which + 1}`);
    received.push((await redeeming).toSorted());
    nodes[which] = await starting;
    await insist(() =>
      admin.post(tenantPath(`automations/${automation.id}/finish`), { outcome: 'done' }),
    );
  }
  // An answer that was lost with its node leaves none who knows: then it is done by nobody.
  for (const statuses of received)
    expect([
      [200, 409],
      [409, 409],
    ]).toContainEqual(statuses);
  await eventually(async () => {
    const rows = await cluster.database.query<{ target: string; count: number }>(
      `SELECT target, count(*)::int AS count FROM audit.events
       WHERE action = 'automation.redeemed' AND target = ANY($1) GROUP BY target`,
      [ids],
    );
    expect(rows.map(({ target }) => target).toSorted()).toEqual(ids.toSorted());
    expect(rows.filter(({ count }) => count !== 1)).toEqual([]);
  }, 60_000);

  const before = await begin('stopped');
  const stop = { automation_enabled: { const: false } };
  const bounds = tenantPath('config/bounds');
  const stopped = insist(() => admin.patch(bounds, stop));
  await killed(nodes[0]!);
  expect((await stopped).status).toBeLessThan(300);
  expect(await redeemAtOnce(before)).toEqual([410, 410]);
});
