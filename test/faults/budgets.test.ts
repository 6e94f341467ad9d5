/**
 * Budgets while the nodes that charge them are killed: never more than the amount by a cent, and
 * each charge once. Judged by what the audit says was started and finished.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually, killed, startCluster, type Cluster } from '../support/cluster.ts';
import type { Answer, Client, Running } from '../support/strata.ts';

const amount = 1000;
const costs = 10;
const askers = 64;
const each = 6;
const kills = 4;
let cluster: Cluster;
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
  admin = cluster.tenant.admin;
});
afterAll(() => cluster?.stop());

const tenantPath = (rest: string): string => `/tenants/${cluster.tenant.id}/${rest}`;
/** Repeats a request that no node answers, until one does. */
const insist = (work: () => Promise<Answer>): Promise<Answer> =>
  eventually(async () => {
    const given = await work();
    if (given.status >= 500) throw new Error(given.text);
    return given;
  }, 120_000);

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
  for (let kill = 0; kill < kills; kill += 1) {
    await delay(1500);
    const which = kill % 2;
    await killed(nodes[which]!);
    nodes[which] = await start(`notifier-${which + 1}`);
  }
  await asking;

  // In cents. The order in the ledger is that of the lock: what was started fits in any order.
  const held = new Map<string, number>();
  let spent = 0;
  const events = await eventually(async () => {
    const rows = await cluster.database.query<{ event: Event }>(
      `SELECT json_build_object('action', action, 'target', target, 'payload', payload) AS event
       FROM audit.events WHERE tenant_id = $1 AND action LIKE 'automation.%' ORDER BY seq`,
      [cluster.tenant.id],
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
