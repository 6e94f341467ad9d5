/** G1 under the faults of G3: real processes, a real bus and database, and a checker of what was read. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually, killed, startCluster, type Cluster } from '../support/cluster.ts';
import { observe, violations, type Observed } from '../support/history-checker.ts';
import { startProxy } from '../support/proxy.ts';
import { startNats } from '../support/servers.ts';
import { Client } from '../support/strata.ts';

const fenceMs = 2000;

/** `least`: how many writes must have been answered for the history to say something. A dead node's requests wait for their time-out. */
function check(observed: Observed, { least = 5 } = {}): void {
  const problems = violations(observed);
  if (problems.length > 0) throw new Error(`${problems.length} violations, such as\n${problems.slice(0, 5).join('\n')}`);
  expect(observed.writes.length).toBeGreaterThan(least);
  expect(observed.reads.filter(({ stale }) => !stale).length).toBeGreaterThan(least * 5);
  for (const error of observed.errors.keys()) {
    // With a code, or a connection that a killed process took along; never a hang or a wrong answer.
    expect(error).toMatch(/ 50[34] (service_unavailable|timeout)$|fetch failed|terminated|ECONNRESET| 500 internal_error$/);
  }
}

/** All gateways agree with the newest write within the fence. */
async function agreed(cluster: Cluster): Promise<void> {
  const path = `/tenants/${cluster.tenant.id}/config/agents/register`;
  const written = await eventually(async () => {
    const answer = await new Client(cluster.gateways[0]!.url, cluster.tenant.admin.token).put(path, { custom: { value: 1_000_000 } });
    if (answer.status >= 300) throw new Error(answer.text);
    return answer;
  });
  for (const gateway of cluster.gateways.filter(({ process: { exitCode, signalCode } }) => exitCode === null && signalCode === null)) {
    await eventually(async () => {
      const read = await new Client(gateway.url, cluster.tenant.admin.token).get(path);
      expect([read.status, read.body]).toEqual([200, written.body]);
    }, fenceMs + 3000);
  }
}

describe('with broadcasts', () => {
  let cluster: Cluster;
  // A write through the gateway that is cut off takes as long as a request may.
  beforeAll(async () => { cluster = await startCluster({ environment: { REQUEST_TIMEOUT_MS: '2500' } }); }, 60_000);
  afterAll(() => cluster?.stop());

  test('nothing goes wrong', async () => {
    const observed = await observe(cluster, () => delay(2500));
    check(observed, { least: 50 });
    expect([...observed.errors]).toEqual([]);
  });

  test('a gateway that is paused for 6 s: writes wait for the fence, and it wakes up without an old value', async () => {
    const paused = cluster.gateways[2]!;
    const observed = await observe(cluster, async () => {
      await delay(700);
      process.kill(paused.pid, 'SIGSTOP');
      await delay(6000);
      process.kill(paused.pid, 'SIGCONT');
    });
    check(observed);
    expect(observed.slowestWriteMs).toBeGreaterThan(fenceMs / 2);
    await agreed(cluster);
  });

  test('the bus is killed and comes back', async () => {
    const observed = await observe(cluster, async () => {
      await delay(700);
      const { port } = cluster.bus;
      await cluster.bus.stop('SIGKILL');
      await delay(4000);
      cluster.bus = await startNats({ port });
      await delay(2000);
    });
    check(observed);
    await agreed(cluster);
  });

  test('one gateway is cut off from the bus: what it still answers is marked, and it comes back without an old value', async () => {
    const proxy = await startProxy(cluster.bus.port);
    try {
      const cutOff = await cluster.start('gateway-behind-proxy', ['gateway'], { NATS_URL: `nats://127.0.0.1:${proxy.port}` });
      cluster.gateways.push(cutOff);
      await eventually(async () => expect((await new Client(cutOff.url).get('/readyz')).status).toBe(200));
      const observed = await observe(cluster, async () => {
        await delay(1000);
        proxy.cut();
        await delay(5000);
        proxy.mend();
        await delay(3000);
      });
      check(observed);
      expect(observed.reads.some(({ node, stale }) => stale && node === cutOff.url)).toBe(true);
      await agreed(cluster);
      cluster.gateways.splice(cluster.gateways.indexOf(cutOff), 1);
      await cutOff.stop();
    } finally {
      await proxy.stop();
    }
  });

  test('a node joins during writes', async () => {
    const observed = await observe(cluster, async () => {
      cluster.gateways.push(await cluster.start('gateway-late', ['gateway']));
      await delay(500);
    });
    check(observed);
    const late = cluster.gateways.at(-1)!;
    const again = await observe(cluster, () => delay(1500));
    check(again);
    expect(again.reads.some(({ node }) => node === late.url)).toBe(true);
  });

  test('services and a gateway are killed in the middle of requests', async () => {
    const observed = await observe(cluster, async () => {
      await delay(500);
      await killed(cluster.services[0]!);
      await delay(1500);
      await killed(cluster.services[2]!);
      await delay(1500);
      await killed(cluster.gateways[1]!);
      await delay(1500);
    });
    check(observed);
    await agreed(cluster);
  });
});

describe('without any broadcast', () => {
  let cluster: Cluster;
  const folder = mkdtempSync(join(tmpdir(), 'strata-nats-'));
  beforeAll(async () => {
    const config = join(folder, 'nats.conf');
    // Event packets of the bus are refused by the server: broadcasts and their acknowledgements are all lost.
    writeFileSync(config, 'authorization { users = [ { user: strata, password: strata, permissions: { publish: { deny: ["MOL-strata.EVENT.>", "MOL-strata.EVENTB.>"] } } } ] }');
    cluster = await startCluster({ natsConfig: config, environment: { NATS_USER: 'strata', NATS_PASSWORD: 'strata' } });
  }, 60_000);
  afterAll(async () => {
    await cluster?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('the feed and the fence alone hold', async () => {
    const observed = await observe(cluster, () => delay(6000));
    check(observed);
    expect([...observed.errors]).toEqual([]);
    // Nobody acknowledges, so a write is answered when the feed has reached every node.
    expect(observed.slowestWriteMs).toBeGreaterThan(fenceMs / 8);
    expect(observed.slowestWriteMs).toBeLessThan(fenceMs * 2);
  });
});
