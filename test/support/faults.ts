/** The faults that a cluster survives (guarantee G3), and what must hold under each of them. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually, isAlive, killed, type Cluster } from './cluster.ts';
import { observe, violations, type Observed } from './history-checker.ts';
import { startNats, startRedis } from './servers.ts';
import { Client, createTenant, type Answer, type Running } from './strata.ts';

export const fenceMs = 2000;
/** A request through a node that is cut off takes as long as it may; the observed cluster allows no more than this. */
export const requestTimeoutMs = 2500;
/** Nodes that reach the bus through a proxy. */
export const cuttable = ['gateway-3', 'config-2'] as const;

export interface Fault {
  readonly name: string;
  readonly inject: (cluster: Cluster) => Promise<void>;
  /** Clients need not notice. */
  readonly unnoticed?: true;
  /** Connections break that clients have. */
  readonly breaksConnections?: true;
  /** The client's own node does not run for so long. */
  readonly pausedMs?: number;
  readonly shows?: (observed: Observed, cluster: Cluster) => void;
  /** Only in the soak. */
  readonly long?: true;
}

async function paused(
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
async function gatewayPaused(cluster: Cluster, ms: number): Promise<void> {
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
  await write(1);
  await eventually(async () => assert.equal((await sleeper.get(path)).status, 200));
  await delay(700);
  const leaseEnds = async (): Promise<number> => {
    const [lease] = await database.query<{ renewed_at: Date }>(
      'SELECT renewed_at FROM strata.leases WHERE node_id = $1',
      ['gateway-2'],
    );
    return lease!.renewed_at.getTime() + fenceMs;
  };
  const earlier = await leaseEnds();
  await eventually(async () => assert.notEqual(await leaseEnds(), earlier));
  const asked: Promise<Answer>[] = [];
  await paused(cluster, [gateways[1]!], ms, async () => {
    const until = await leaseEnds();
    assert(
      Date.now() < until,
      'the lease of the paused gateway was over before anything was written',
    );
    await write(2);
    assert(
      Date.now() >= until,
      'a write was answered while the paused gateway could still serve an older value',
    );
    asked.push(...Array.from({ length: 20 }, () => sleeper.get(path)));
  });
  for (const { status, body, headers } of await Promise.all(asked)) {
    if (status === 200 && headers.get('x-config-stale') !== 'true')
      assert.equal(body.custom.value, 2, 'a gateway that woke up answered an older value');
  }
}

async function cutOff(
  { proxies }: Cluster,
  name: (typeof cuttable)[number],
  ms: number,
  meanwhile: () => Promise<void> = async () => {},
): Promise<void> {
  await delay(700);
  proxies[name]!.cut();
  try {
    await Promise.all([delay(ms), meanwhile()]);
  } finally {
    proxies[name]!.mend();
  }
  await delay(3000);
}

/** What it knew of a tenant that nobody writes to, it goes on answering, marked. */
async function gatewayCutOff(cluster: Cluster, ms: number): Promise<void> {
  const { gateways, platform } = cluster;
  const quiet = await createTenant(
    gateways[0]!.url,
    new Client(gateways[0]!.url, platform.token),
    `Quiet ${Date.now()}`,
  );
  const risk = () =>
    new Client(gateways[2]!.url, quiet.admin.token).get(`/tenants/${quiet.id}/config/risk`);
  await eventually(async () => assert.equal((await risk()).status, 200));
  await cutOff(cluster, 'gateway-3', ms, async () => {
    await delay(fenceMs + 500);
    const { status, headers } = await risk();
    assert.deepEqual(
      [status, headers.get('x-config-stale')],
      [200, 'true'],
      'a gateway that is cut off answers what it knows, marked',
    );
  });
}

/** One after the other, each back before the next. */
async function killedInTurn(cluster: Cluster, nodes: readonly Running[]): Promise<void> {
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
    inject: (cluster) => gatewayPaused(cluster, 6000),
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
    inject: (cluster) => gatewayCutOff(cluster, 4000),
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
      killedInTurn(cluster, [cluster.services[0]!, cluster.services[2]!, cluster.gateways[1]!]),
  },

  {
    name: 'the other of each service and another gateway are killed',
    long: true,
    breaksConnections: true,
    inject: (cluster) =>
      killedInTurn(cluster, [cluster.services[1]!, cluster.services[3]!, cluster.gateways[0]!]),
  },
  {
    name: 'a gateway is cut off from the bus for 45 s',
    long: true,
    inject: (cluster) => gatewayCutOff(cluster, 45_000),
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
      await paused(cluster, [cluster.services[1]!, cluster.services[3]!], 6000);
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

/** Answered writes without which a history says nothing. A dead node's requests wait for their time-out, and machines are slow. */
const least = 5;

/** Throws what is wrong with what was observed. */
export function judge(
  observed: Observed,
  { unnoticed, breaksConnections, pausedMs = 0 }: Omit<Fault, 'name' | 'inject'> = {},
): void {
  const problems = violations(observed);
  assert(
    problems.length === 0,
    `${problems.length} violations, such as\n${problems.slice(0, 5).join('\n')}`,
  );
  assert(observed.writes.length > least, `only ${observed.writes.length} writes were answered`);
  assert(
    observed.reads.filter(({ stale }) => !stale).length > least * 5,
    'hardly anything was read',
  );
  const errors = [...observed.errors.keys()];
  if (unnoticed) assert.deepEqual(errors, []);
  const coded = / 50[34] (service_unavailable|timeout)$/;
  const broken = /fetch failed|terminated|ECONNRESET/;
  for (const error of errors)
    assert(coded.test(error) || (breaksConnections && broken.test(error)), `a client saw ${error}`);
  const patienceMs = requestTimeoutMs + pausedMs + 1500;
  assert(observed.slowestMs < patienceMs, `a client waited ${Math.round(observed.slowestMs)} ms`);
}

/** All gateways agree with the newest write within the fence. */
async function agreed({ tenant, gateways }: Cluster): Promise<void> {
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

/** Injects the fault while clients write and read, judges what they saw, and waits until every gateway is well. */
export async function survive(cluster: Cluster, fault: Fault): Promise<Observed> {
  const observed = await observe(cluster, () => fault.inject(cluster));
  judge(observed, fault);
  fault.shows?.(observed, cluster);
  await agreed(cluster);
  return observed;
}
