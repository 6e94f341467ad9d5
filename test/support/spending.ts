/**
 * Budgets while everything that keeps them is killed and clocks jump: clients start far more
 * automations than the amount pays for. Judged by the audit, and after each fault by the rows.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually, isAlive, killed, type Cluster } from './cluster.ts';
import { fakeClock } from './postgres.ts';
import { Client, type Answer, type Running } from './strata.ts';

const clients = 64;
/** In cents. */
const cost = 999;
const actual = 501;
const euros = (cents: number): string => (cents / 100).toFixed(2);
/** Never as long as an expiry takes. */
const steps = [600, -600, 0];

export interface Spent {
  readonly answered: number;
  readonly started: number;
  readonly repeats: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly spent: string;
  readonly held: string;
  readonly amount: string;
  readonly seconds: number;
}

const randomOf = <T>(from: readonly T[]): T => from[Math.floor(Math.random() * from.length)]!;

/** `starts` automations against an amount that pays for `fits`, on three nodes of their own. */
export async function spendUnderFaults(
  cluster: Cluster,
  { starts, fits }: { readonly starts: number; readonly fits: number },
): Promise<Spent> {
  const amount = fits * cost;
  const folder = mkdtempSync(join(tmpdir(), 'strata-clocks-'));
  const clockOf = (name: string): string => join(folder, name);
  const names = ['notifier-1', 'notifier-2', 'notifier-3'];
  for (const name of names) writeFileSync(clockOf(name), '+0');
  const nodes = new Map<string, Running>();
  const revive = async (name: string): Promise<void> => {
    const startNode = (): Promise<Running> =>
      cluster.start(name, ['notifier'], fakeClock(clockOf(name)));
    nodes.set(name, await eventually(startNode, 120_000));
  };
  await Promise.all(names.map(revive));
  await setLimits(cluster, amount);

  const seen = { next: 0, answered: 0, repeats: 0, started: 0 };
  const faults: Record<string, number> = {};
  const began = performance.now();
  const asking = Promise.all(
    Array.from({ length: clients }, async () => {
      while (seen.next < starts) {
        seen.next += 1;
        await spendOnce(cluster, `start-${seen.next}`, seen);
      }
    }),
  );
  const state = { isDone: false };
  const asked = asking.finally(() => {
    state.isDone = true;
  });
  const disturb = async (): Promise<string> => {
    switch (
      randomOf(['notifier', 'notifier', 'gateway', 'service', 'postgres', 'clock', 'clocks'])
    ) {
      case 'notifier': {
        const name = randomOf(names);
        await killed(nodes.get(name)!);
        await revive(name);
        return 'kill -9 of a notifier';
      }
      case 'gateway': {
        const victim = randomOf(cluster.gateways);
        await killed(victim);
        await eventually(() => cluster.revive(victim), 120_000);
        return 'kill -9 of a gateway';
      }
      case 'service': {
        const victim = randomOf(cluster.services);
        await killed(victim);
        await eventually(() => cluster.revive(victim), 120_000);
        return 'kill -9 of a service';
      }
      case 'postgres':
        await cluster.postgres.restart(randomOf(['SIGKILL', 'SIGQUIT']));
        return 'kill -9 of PostgreSQL';
      case 'clock':
        await cluster.postgres.setClock(randomOf(steps));
        return "a step of PostgreSQL's clock";
      default: {
        const seconds = randomOf(steps);
        writeFileSync(clockOf(randomOf(names)), `${seconds < 0 ? '' : '+'}${seconds}`);
        await delay(1100);
        return "a step of a notifier's clock";
      }
    }
  };
  try {
    // One that fails fails the rest.
    while (!state.isDone) {
      await delay(Math.random() * 1500);
      const fault = await disturb();
      faults[fault] = (faults[fault] ?? 0) + 1;
      await requireLedger(cluster, amount);
    }
    await asked;
    const seconds = Math.round((performance.now() - began) / 1000);
    const { spent, held } = await requireLedger(cluster, amount);
    const byAudit = await readAudit(cluster);
    assert.deepEqual(
      [byAudit.spent, byAudit.held],
      [spent, held],
      'the ledger is what the audit says',
    );
    assert.equal(byAudit.started, seen.started, 'each that was answered as running started once');
    assert.equal(byAudit.decided, starts, 'each key made one automation');
    assert.ok(spent + held <= amount, `${spent} + ${held} of ${amount} cents`);
    assert.ok(amount - spent - held < cost, 'refused for want of money alone');
    const { answered, repeats, started } = seen;
    const measured = { spent: euros(spent), held: euros(held), amount: euros(amount) };
    return { answered, started, repeats, faults, ...measured, seconds };
  } finally {
    state.isDone = true;
    await asked.catch(() => undefined);
    rmSync(folder, { recursive: true, force: true });
  }
}

async function setLimits({ tenant: { admin, id } }: Cluster, amount: number): Promise<void> {
  const limits = {
    global_settings: {
      max_concurrent_automations: 1000,
      max_cost_impact_auto: 1000,
      max_cost_impact_approval: 1000,
    },
  };
  const budget = { amount: euros(amount), currency: 'EUR', per: 'month' };
  for (const [kind, body] of [
    ['risk', limits],
    ['budgets', { all: budget }],
  ] as const)
    await eventually(async () => {
      const { status, text } = await admin.patch(`/tenants/${id}/config/${kind}`, body);
      if (status >= 300) throw new Error(text);
    }, 120_000);
}

interface Seen {
  answered: number;
  repeats: number;
  started: number;
}

/** Starts one, repeated with its key until it is answered; of three that run one ends for less, one without a word. */
async function spendOnce(cluster: Cluster, key: string, seen: Seen): Promise<void> {
  const { id: tenantId, admin } = cluster.tenant;
  const insist = (path: string, body: object): Promise<Answer> =>
    eventually(async () => {
      const gateway = randomOf(cluster.gateways.filter(isAlive));
      if (!gateway) throw new Error('no gateway runs');
      const answer = await new Client(gateway.url, admin.token).post(path, body);
      if (answer.status < 500) return answer;
      seen.repeats += 1;
      throw new Error(answer.text);
    }, 180_000);
  const path = `/tenants/${tenantId}/automations`;
  const { status, text, body } = await insist(path, {
    action: 'scale',
    risk_level: 'low',
    cost_impact: cost / 100,
    ttl_seconds: 86_400,
    idempotency_key: key,
  });
  assert.equal(status, 201, text);
  seen.answered += 1;
  if (body.state !== 'running') return;
  seen.started += 1;
  const way = seen.started % 3;
  if (way === 0) return;
  const end = { outcome: 'done', ...(way === 1 && { actual_cost: actual / 100 }) };
  const finished = await insist(`${path}/${body.id}/finish`, end);
  assert.equal(finished.status, 200, finished.text);
}

interface Cents {
  readonly spent: number;
  readonly held: number;
}

/** One statement, so one moment: what automations hold and what they cost is what the ledger says. */
async function requireLedger({ database, tenant }: Cluster, amount: number): Promise<Cents> {
  const [row] = await eventually(
    () =>
      database.query<Cents & { readonly owed: number; readonly cost: number }>(
        `WITH parts AS (
           SELECT a.state, CASE WHEN a.actual_cost IS NULL THEN h.amount ELSE a.actual_cost::numeric END AS cost, h.amount
           FROM notifier.automations a, json_to_recordset(a.holds) AS h (amount numeric) WHERE a.tenant_id = $1
         ), ledger AS (SELECT sum(spent) AS spent, sum(held) AS held FROM notifier.ledger WHERE tenant_id = $1)
         SELECT (COALESCE(spent, 0) * 100)::float8 AS spent, (COALESCE(held, 0) * 100)::float8 AS held,
           (SELECT COALESCE(sum(amount), 0) * 100 FROM parts WHERE state = 'running')::float8 AS owed,
           (SELECT COALESCE(sum(cost), 0) * 100 FROM parts WHERE state <> 'running')::float8 AS cost
         FROM ledger`,
        [tenant.id],
      ),
    60_000,
  );
  const { spent, held, owed, cost: costs } = row!;
  assert.deepEqual([spent, held], [costs, owed], 'the ledger is the sum of holds and costs');
  assert.ok(spent + held <= amount, `${spent} + ${held} of ${amount} cents`);
  return { spent, held };
}

interface Event {
  readonly action: string;
  readonly target: string;
  readonly payload: { readonly cost_impact?: number; readonly actual_cost?: number };
}

/** What the audit says was started, what it still holds and what it cost, in cents. */
async function readAudit({ database, tenant }: Cluster) {
  const events = await eventually(async () => {
    const [waiting] = await database.query<{ count: number }>(
      'SELECT count(*)::int AS count FROM strata.outbox',
    );
    if (waiting!.count > 0) throw new Error(`${waiting!.count} events are not in the audit yet`);
    return database.query<Event>(
      `SELECT action, target, payload FROM audit.events
       WHERE tenant_id = $1 AND action LIKE 'automation.%' ORDER BY seq`,
      [tenant.id],
    );
  }, 120_000);
  const holds = new Map<string, number>();
  const begun = new Set<string>();
  const denied = new Set<string>();
  let spent = 0;
  for (const { action, target, payload } of events) {
    if (action === 'automation.denied') denied.add(target);
    if (action === 'automation.started') {
      assert.ok(!begun.has(target), `${target} started twice`);
      begun.add(target);
      holds.set(target, Math.round(payload.cost_impact! * 100));
    }
    if (action === 'automation.finished') {
      const held = holds.get(target)!;
      spent += payload.actual_cost === undefined ? held : Math.round(payload.actual_cost * 100);
      holds.delete(target);
    }
  }
  const held = [...holds.values()].reduce((sum, one) => sum + one, 0);
  return { spent, held, started: begun.size, decided: begun.size + denied.size };
}
