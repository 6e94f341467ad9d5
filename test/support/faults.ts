/** The faults that a cluster survives (guarantee G3), and what must hold under each of them. */
import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually, isAlive, killed, type Cluster } from './cluster.ts';
import { observe, violations, type Observed } from './history-checker.ts';
import { startNats, startRedis } from './servers.ts';
import { Client, createTenant, type Answer, type Running } from './strata.ts';

/** COHERENCE_FENCE_MS of the clusters, its default. */
export const fenceMs = 2000;
/** REQUEST_TIMEOUT_MS of the clusters: what a request through a node that is cut off takes at most. */
export const requestTimeoutMs = 2500;
/** Nodes that reach the bus through a proxy, which a fault can cut. */
export const cuttable = ['gateway-3', 'config-2'] as const;

/** Before a fault, so that clients write and read already; after it, so that nodes reconnect while they still do. */
const beforeMs = 700;
const reconnectMs = 3000;

export interface Fault {
  readonly name: string;
  readonly inject: (cluster: Cluster) => Promise<void>;
  /** No client sees an error. */
  readonly unnoticed?: true;
  /** Clients lose connections in the middle of requests. */
  readonly breaksConnections?: true;
  /** The node that clients ask does not run for so long. */
  readonly pausedMs?: number;
  /** What must show in particular, beside what holds under every fault. */
  readonly shows?: (observed: Observed, cluster: Cluster) => void;
  /** Too long for `npm test`; only the soak injects it. */
  readonly long?: true;
}

/** Stops processes where they are, for so long and until `meanwhile` has ended. */
async function pauseNodes(
  { suspended }: Cluster,
  nodes: readonly Running[],
  ms: number,
  meanwhile: () => Promise<void> = async () => {},
): Promise<void> {
  for (const node of nodes) {
    suspended.add(node);
    process.kill(node.pid, 'SIGSTOP');
  }
  try {
    await Promise.all([delay(ms), meanwhile()]);
  } finally {
    for (const node of nodes) {
      process.kill(node.pid, 'SIGCONT');
      suspended.delete(node);
    }
  }
}

/**
 * A write through another gateway is not answered while the paused one may still serve what it has, and who asked the paused
 * one after that answer does not hear the older value when it wakes up.
 */
async function pauseGateway(cluster: Cluster, ms: number): Promise<void> {
  const { gateways, tenant, database } = cluster;
  const path = `/tenants/${tenant.id}/config/agents/meanwhile`;
  const [writer, sleeper] = [gateways[0]!, gateways[1]!].map(
    ({ url }) => new Client(url, tenant.admin.token),
  ) as [Client, Client];
  const write = (value: number) =>
    eventually(async () => {
      const { status, text } = await writer.put(path, { custom: { value } });
      assert(status < 300, text);
    });
  const leaseToken = async (): Promise<string> => {
    const [lease] = await database.query<{ token: string }>(
      "SELECT token FROM strata.leases WHERE holder LIKE 'gateway-2 %'",
    );
    return lease!.token;
  };

  await write(1);
  await eventually(async () => assert.equal((await sleeper.get(path)).status, 200));
  await delay(beforeMs);
  // Paused just after its lease was renewed, so that the write below meets a lease that is valid.
  const earlier = await leaseToken();
  let renewedAfter = 0;
  await eventually(async () => {
    const began = performance.now();
    const token = await leaseToken();
    if (token === earlier) renewedAfter = began;
    assert.notEqual(token, earlier);
  });
  const asked: Promise<Answer>[] = [];
  await pauseNodes(cluster, [gateways[1]!], ms, async () => {
    const until = renewedAfter + fenceMs;
    assert(
      performance.now() < until,
      'the lease of the paused gateway was over before anything was written',
    );
    await write(2);
    assert(
      performance.now() >= until,
      'a write was answered while the paused gateway could still serve an older value',
    );
    asked.push(...Array.from({ length: 20 }, () => sleeper.get(path)));
  });
  for (const { status, body, headers } of await Promise.all(asked)) {
    const isMarked = headers.get('x-config-stale') === 'true';
    if (status === 200 && !isMarked)
      assert.equal(body.custom.value, 2, 'a gateway that woke up answered an older value');
  }
}

/** Cuts a node's connection to the bus, for so long and until `meanwhile` has ended. */
async function cutOff(
  { proxies }: Cluster,
  name: (typeof cuttable)[number],
  ms: number,
  meanwhile: () => Promise<void> = async () => {},
): Promise<void> {
  await delay(beforeMs);
  proxies[name]!.cut();
  try {
    await Promise.all([delay(ms), meanwhile()]);
  } finally {
    proxies[name]!.mend();
  }
  await delay(reconnectMs);
}

/** A gateway that is cut off goes on answering what it knew of a tenant that nobody writes to, marked as stale. */
async function cutOffGateway(cluster: Cluster, ms: number): Promise<void> {
  const { gateways, platform } = cluster;
  const quiet = await createTenant(
    gateways[0]!.url,
    new Client(gateways[0]!.url, platform.token),
    `Quiet ${Date.now()}`,
  );
  const readRisk = () =>
    new Client(gateways[2]!.url, quiet.admin.token).get(`/tenants/${quiet.id}/config/risk`);
  await eventually(async () => assert.equal((await readRisk()).status, 200));
  await cutOff(cluster, 'gateway-3', ms, async () => {
    // Until its lease is over.
    await delay(fenceMs + 500);
    const { status, headers } = await readRisk();
    assert.deepEqual(
      [status, headers.get('x-config-stale')],
      [200, 'true'],
      'a gateway that is cut off answers what it knows, marked',
    );
  });
}

/** Kills one after the other; each is back before the next. */
async function killInTurn(cluster: Cluster, nodes: readonly Running[]): Promise<void> {
  await delay(500);
  for (const node of nodes) {
    await killed(node);
    await delay(1000);
    await cluster.revive(node);
  }
}

export const faults: readonly Fault[] = [
  { name: 'nothing goes wrong', unnoticed: true, inject: () => delay(2500) },
  {
    name: 'a gateway is paused for 6 s: writes wait for the fence, and it wakes up without an old value',
    pausedMs: 6000,
    inject: (cluster) => pauseGateway(cluster, 6000),
  },
  {
    name: 'the bus is killed and comes back',
    async inject(cluster) {
      await delay(700);
      const { port } = cluster.bus;
      await cluster.bus.stop('SIGKILL');
      await delay(4000);
      cluster.bus = await startNats({ port });
      await delay(2000);
    },
  },
  {
    name: 'a gateway is cut off from the bus for 4 s: what it still answers is marked, and it comes back without an old value',
    inject: (cluster) => cutOffGateway(cluster, 4000),
  },
  {
    name: 'Redis is killed and comes back',
    unnoticed: true,
    async inject(cluster) {
      const { port } = cluster.redis;
      await cluster.redis.stop('SIGKILL');
      await delay(2500);
      cluster.redis = await startRedis({ port });
    },
  },
  {
    name: 'PostgreSQL is restarted',
    async inject({ postgres }) {
      await delay(500);
      await postgres.restart('SIGINT');
      await delay(1000);
    },
  },
  {
    name: 'PostgreSQL stalls for 4 s',
    async inject({ postgres }) {
      await delay(500);
      const goOn = await postgres.freeze();
      try {
        await delay(4000);
      } finally {
        goOn();
      }
    },
  },
  {
    name: 'a gateway joins during writes',
    async inject(cluster) {
      cluster.gateways.push(await cluster.start('gateway-late', ['gateway']));
      await delay(1500);
    },
    shows({ reads }, { gateways }) {
      assert(
        reads.some(({ node }) => node === gateways.at(-1)!.url),
        'nothing was read on the node that joined',
      );
      void gateways.pop()!.stop();
    },
  },
  {
    name: 'one of each service and a gateway are killed in the middle of requests',
    breaksConnections: true,
    inject: (cluster) =>
      killInTurn(cluster, [cluster.services[0]!, cluster.services[2]!, cluster.gateways[1]!]),
  },

  {
    name: 'the other of each service and another gateway are killed',
    long: true,
    breaksConnections: true,
    inject: (cluster) =>
      killInTurn(cluster, [cluster.services[1]!, cluster.services[3]!, cluster.gateways[0]!]),
  },
  {
    name: 'a gateway is cut off from the bus for 45 s',
    long: true,
    inject: (cluster) => cutOffGateway(cluster, 45_000),
  },
  {
    name: 'a service is cut off from the bus for 4 s',
    long: true,
    inject: (cluster) => cutOff(cluster, 'config-2', 4000),
  },
  {
    name: 'a service is cut off from the bus for 45 s',
    long: true,
    inject: (cluster) => cutOff(cluster, 'config-2', 45_000),
  },
  {
    name: 'services are paused for 6 s',
    long: true,
    async inject(cluster) {
      await delay(700);
      await pauseNodes(cluster, [cluster.services[1]!, cluster.services[3]!], 6000);
      await delay(2000);
    },
  },
  {
    name: 'PostgreSQL is killed and recovers',
    long: true,
    async inject({ postgres }) {
      await delay(500);
      await postgres.restart('SIGKILL');
      await delay(2000);
    },
  },
  {
    name: 'the bus is restarted at once',
    long: true,
    async inject(cluster) {
      const { port } = cluster.bus;
      await cluster.bus.stop('SIGTERM');
      cluster.bus = await startNats({ port });
      await delay(3000);
    },
  },
];

/** With fewer answered writes a history says nothing. A dead node's requests wait for their time-out, and machines are slow. */
const minWrites = 5;

/** What an error of a client may be: an outage with its code, or a connection that broke where the fault breaks some. */
const outageError = / 50[34] (service_unavailable|timeout)$/;
const connectionError = /fetch failed|terminated|ECONNRESET/;

/** Throws what is wrong with what was observed under a fault. */
export function assertCoherent(
  observed: Observed,
  { unnoticed, breaksConnections, pausedMs = 0 }: Omit<Fault, 'name' | 'inject'> = {},
): void {
  const problems = violations(observed);
  const examples = problems.slice(0, 5).join('\n');
  assert(problems.length === 0, `${problems.length} violations, such as\n${examples}`);

  const freshReads = observed.reads.filter(({ stale }) => !stale);
  assert(observed.writes.length > minWrites, `only ${observed.writes.length} writes were answered`);
  assert(freshReads.length > minWrites * 5, 'hardly anything was read');

  const errors = [...observed.errors.keys()];
  if (unnoticed) assert.deepEqual(errors, []);
  for (const error of errors) {
    const mayHappen =
      outageError.test(error) || (breaksConnections === true && connectionError.test(error));
    assert(mayHappen, `a client saw ${error}`);
  }
  const patienceMs = requestTimeoutMs + pausedMs + 1500;
  assert(observed.slowestMs < patienceMs, `a client waited ${Math.round(observed.slowestMs)} ms`);
}

/** Writes once more, and waits until every gateway answers what was written; throws if that takes much longer than the fence. */
async function gatewaysAgree({ tenant, gateways }: Cluster): Promise<void> {
  const path = `/tenants/${tenant.id}/config/agents/register`;
  const written = await eventually(async () => {
    const answer = await new Client(gateways[0]!.url, tenant.admin.token).put(path, {
      custom: { value: 1_000_000 },
    });
    if (answer.status >= 300) throw new Error(answer.text);
    return answer;
  });
  for (const gateway of gateways.filter(isAlive)) {
    await eventually(async () => {
      const read = await new Client(gateway.url, tenant.admin.token).get(path);
      assert.deepEqual([read.status, read.body], [200, written.body]);
    }, fenceMs + 3000);
  }
}

/** Injects the fault while clients write and read; throws if what they saw is wrong, or if not every gateway is well afterwards. */
export async function survive(cluster: Cluster, fault: Fault): Promise<Observed> {
  const observed = await observe(cluster, () => fault.inject(cluster));
  assertCoherent(observed, fault);
  fault.shows?.(observed, cluster);
  await gatewaysAgree(cluster);
  return observed;
}
