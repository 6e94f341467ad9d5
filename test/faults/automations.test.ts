/**
 * Slots while the nodes that give them are killed: never more running than the limit, none leaked
 * beyond its time, each asked for once. Judged by the rows at the end, whose times are the
 * database's, so that no moment in between goes unseen.
 */
import { grown } from '../support/grown.ts';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually, killed, startCluster, type Cluster } from '../support/cluster.ts';
import type { Answer, Client, Running } from '../support/strata.ts';

const limit = 5;
const ttl = 5;
const askers = 64;
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
  await grown(cluster.database, cluster.tenant.id);
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
      cluster.tenant.operator.post(tenantPath(`approvals/${approval}/decision`), {
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
  for (let kill = 0; kill < kills; kill += 1) {
    await delay(1200);
    const which = kill % 2;
    await killed(nodes[which]!);
    nodes[which] = await start(`notifier-${which + 1}`);
  }
  await asking;

  const rows = () =>
    cluster.database.query<Row>(
      `SELECT state, extract(epoch FROM started_at)::float8 AS started, extract(epoch FROM ended_at)::float8 AS ended
       FROM notifier.automations WHERE tenant_id = $1`,
      [cluster.tenant.id],
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
