/**
 * What callers notice of a node that is killed, and of a connection to NATS that is reset, under
 * load: real processes, two of each role. The measurements are printed; what is asserted leaves room
 * for a busy machine, and is far from the time-out, which is longer here.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { eventually, killed, startCluster, type Cluster } from '../support/cluster.ts';
import { fenceMs } from '../support/faults.ts';
import type { Running } from '../support/strata.ts';
import { askDuring, assertBearable, summaryOf } from '../support/under-load.ts';

const requestTimeoutMs = 60_000;
const slowestAllowedMs = 5000;

let cluster: Cluster;
let notifiers: Running[];
const measured: string[] = [];

beforeAll(async () => {
  cluster = await startCluster({
    gateways: 2,
    cuttable: ['gateway-1', 'config-1'],
    environment: { REQUEST_TIMEOUT_MS: String(requestTimeoutMs) },
  });
  const started = ['notifier-1', 'notifier-2'].map((name) =>
    eventually(() => cluster.start(name, ['notifier']), 120_000),
  );
  notifiers = await Promise.all(started);
  const { id, admin } = cluster.tenant;
  const asked = async (): Promise<void> =>
    expect((await admin.get(`/tenants/${id}/approvals`)).status).toBe(200);
  await eventually(asked);
});
afterAll(async () => {
  await cluster?.stop();
  console.log(measured.join('\n'));
});

async function check(what: string, fault: () => Promise<void> | void): Promise<void> {
  const { lanes, lateMs } = await askDuring(cluster, cluster.gateways[0]!.url, fault);
  // A node may have had to wait for a processor for longer than this process has.
  const slack = 20 * lateMs;
  measured.push(...lanes.map((seen) => `${what}: ${summaryOf(seen)}`));
  await assertBearable(cluster, lanes, {
    read: slowestAllowedMs + slack,
    write: slowestAllowedMs + fenceMs + slack,
  });
}

test.each(['config-1', 'gateway-1'])('a reset of the connection of %s to NATS', async (name) => {
  await check(`reset of ${name}`, () => {
    cluster.proxies[name]!.cut();
    cluster.proxies[name]!.mend();
  });
});

test.each([
  ['tenant-config and global-config', () => cluster.services[1]!],
  ['auth, audit and config-resolver', () => cluster.services[3]!],
  ['the notifier', () => notifiers[1]!],
  ['a gateway', () => cluster.gateways[1]!],
])('kill -9 of one of two nodes with %s', async (what, node) => {
  await check(`kill -9 of ${what}`, () => killed(node()));
});
