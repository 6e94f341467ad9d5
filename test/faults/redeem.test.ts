/**
 * Executors that redeem the same action at once, by two gateways, while the nodes that answer them are
 * killed: it is redeemed once, and after an answered stop not at all. REDEEM_KILLS makes it longer,
 * such as 200.
 */
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually, killed, startCluster, type Cluster } from '../support/cluster.ts';
import { Client, type Answer, type Running } from '../support/strata.ts';

const kills = Number(process.env.REDEEM_KILLS ?? 4);
jest.setTimeout(600_000 + kills * 10_000);
let cluster: Cluster;
let executors: Client[];
const nodes: Running[] = [];
const start = (name: string): Promise<Running> =>
  eventually(() => cluster.start(name, ['notifier']), 120_000);

beforeAll(async () => {
  cluster = await startCluster({
    gateways: 2,
    environment: { REQUEST_TIMEOUT_MS: '2500', RATE_LIMIT_PER_MINUTE: '0' },
  });
  nodes.push(...(await Promise.all(['notifier-1', 'notifier-2'].map(start))));
  const { token } = cluster.tenant.admin;
  executors = cluster.gateways.map(({ url }) => new Client(url, token));
});
afterAll(() => cluster?.stop());

const path = (rest = ''): string => `/tenants/${cluster.tenant.id}/automations${rest}`;
const insist = (work: () => Promise<Answer>): Promise<Answer> =>
  eventually(async () => {
    const given = await work();
    if (given.status >= 500) throw new Error(given.text);
    return given;
  }, 120_000);

async function begin(key: string): Promise<{ readonly id: string; readonly grant: string }> {
  const body = { action: 'scale', risk_level: 'low', ttl_seconds: 600, idempotency_key: key };
  const { body: made } = await insist(() => executors[0]!.post(path(), body));
  // Of a repeated start the answer may be of the first.
  const { body: running } = await insist(() => executors[0]!.get(path(`/${made.id}`)));
  return running;
}

/** The statuses that executors were answered with: each asks until it is told. */
const redeemAtOnce = ({ id, grant }: { readonly id: string; readonly grant: string }) =>
  Promise.all(
    executors.map(async (client, index) => {
      const body = { grant, executor: `executor-${index}` };
      return (await insist(() => client.post(path(`/${id}/redeem`), body))).status;
    }),
  );

test('two executors on two nodes redeem an action once, however often nodes are killed', async () => {
  const told: (readonly number[])[] = [];
  const ids: string[] = [];
  for (let kill = 0; kill < kills; kill += 1) {
    const automation = await begin(`kill-${kill}`);
    ids.push(automation.id);
    const redeeming = redeemAtOnce(automation);
    // Before, within and after the transaction that redeems.
    await delay((kill * 7) % 40);
    const which = kill % 2;
    await killed(nodes[which]!);
    const starting = start(`notifier-${which + 1}`);
    told.push((await redeeming).toSorted());
    nodes[which] = await starting;
    await insist(() => executors[0]!.post(path(`/${automation.id}/finish`), { outcome: 'done' }));
  }
  // An answer that was lost with its node leaves none who knows: then it is done by nobody.
  for (const statuses of told)
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
  const bounds = `/tenants/${cluster.tenant.id}/config/bounds`;
  const stopped = insist(() => executors[0]!.patch(bounds, stop));
  await killed(nodes[0]!);
  expect((await stopped).status).toBeLessThan(300);
  expect(await redeemAtOnce(before)).toEqual([410, 410]);
});
