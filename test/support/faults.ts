/** The faults that a cluster survives (guarantee G3), and what must hold under each of them. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmodSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { backUpServer } from './backups.ts';
import { eventually, isAlive, killed, type Cluster } from './cluster.ts';
import type { ReplicatedServer } from './failover.ts';
import { violations, type Observed, type Operation, type WentBack } from './history-checker.ts';
import { lostWrites } from './kept.ts';
import { freshOnes, minWrites, observe, type ObserveOptions } from './observe.ts';
import { createDatabase } from './postgres.ts';
import type { Proxy } from './proxy.ts';
import { startNats, startRedis } from './servers.ts';
import {
  adminPassword,
  Client,
  createTenantWith,
  signIn,
  type Answer,
  type Running,
} from './strata.ts';

/** COHERENCE_FENCE_MS of the clusters, its default. */
export const fenceMs = 2000;
/**
 * REQUEST_TIMEOUT_MS of the clusters: what a request through a node that is cut off takes at most.
 */
export const requestTimeoutMs = 2500;
/** Nodes that reach the bus through a proxy, which a fault can cut. */
export const cuttable = ['gateway-2', 'config-2', 'platform-service', 'gateway-patient'] as const;
type Cuttable = (typeof cuttable)[number];

/**
 * Before a fault, so that clients write and read already; after it, so that nodes reconnect while
 * they still do.
 */
const beforeMs = 700;
const reconnectMs = 2500;

export interface Fault {
  readonly name: string;
  /** Returns when the database went back to an older state, if it did. */
  readonly inject: (cluster: Cluster) => Promise<WentBack | void>;
  /** No client sees an error. */
  readonly unnoticed?: boolean;
  /** Clients lose connections in the middle of requests. */
  readonly breaksConnections?: true;
  /** The node that clients ask does not run for so long. */
  readonly pausedMs?: number;
  /** What must show in particular, beside what holds under every fault. */
  readonly shows?: (observed: Observed, cluster: Cluster) => void;
  /** Only the soak injects it: it takes long, or goes the way of one that `npm test` has. */
  readonly long?: true;
}

/**
 * The first of any cluster. The first requests of processes take longer, on a busy machine some of
 * them as long as a request has.
 */
export const justStarted: Fault = {
  name: 'nodes have just started',
  inject: () => delay(2000),
};

/** Stops processes where they are, for so long and until `during` has ended. */
async function pauseNodes(
  { suspended }: Cluster,
  nodes: readonly Running[],
  ms: number,
  during: () => Promise<void> = async () => {},
): Promise<void> {
  for (const node of nodes) {
    suspended.add(node);
    process.kill(node.pid, 'SIGSTOP');
  }
  try {
    await Promise.all([delay(ms), during()]);
  } finally {
    for (const node of nodes) {
      process.kill(node.pid, 'SIGCONT');
      suspended.delete(node);
    }
  }
}

/**
 * A write through another gateway is not answered while the paused one may still serve what it has,
 * and who asked the paused one after that answer does not hear the older value when it wakes up.
 */
async function pauseGateway(cluster: Cluster, ms: number): Promise<void> {
  const { gateways, tenant } = cluster;
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
  await delay(beforeMs);
  // Paused just after its lease was renewed, so that the write below meets a lease that is valid.
  // On a busy machine that is told too late now and then.
  let token = await leaseToken(cluster, 'gateway-2');
  let unchangedAt = -Infinity;
  let renewedAfter = -Infinity;
  await eventually(async () => {
    const began = performance.now();
    const earlier = token;
    token = await leaseToken(cluster, 'gateway-2');
    if (token !== earlier) renewedAfter = unchangedAt;
    unchangedAt = began;
    assert(performance.now() < renewedAfter + fenceMs / 2, 'the lease is not renewed');
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

/**
 * Of the node's lease that was renewed last: one that a killed process left behind stays for
 * minutes.
 */
async function leaseToken({ database }: Cluster, node: string): Promise<string | undefined> {
  const [lease] = await database.query<{ token: string }>(
    'SELECT token FROM strata.leases WHERE holder LIKE $1 ORDER BY age(xmin) LIMIT 1',
    [`${node} %`],
  );
  return lease?.token;
}

/** Cuts a node's connection to the bus, for so long and until `during` has ended. */
async function cutOff(
  { proxies }: Cluster,
  name: Cuttable,
  ms: number,
  during: () => Promise<void> = async () => {},
): Promise<void> {
  await delay(beforeMs);
  proxies[name]!.cut();
  try {
    await Promise.all([delay(ms), during()]);
  } finally {
    proxies[name]!.mend();
  }
  await delay(reconnectMs);
}

/**
 * Has a gateway know something of a tenant that nobody writes to: of others a gateway drops what it
 * knows with each load that is ahead of the feed. Returns how to ask it for that.
 */
async function knowsQuiet(
  cluster: Cluster,
  name: string,
  { url }: Running,
): Promise<() => Promise<Answer>> {
  const through = cluster.gateways[0]!.url;
  const quiet = await eventually(async () => {
    // The sign-in of the start may be too long ago to create tenants.
    const admin = await signIn(through, 'admin@example.com', adminPassword);
    return createTenantWith(through, admin, `Quiet ${Date.now()}`);
  });
  const readRisk = () => new Client(url, quiet.admin.token).get(`/tenants/${quiet.id}/config/risk`);
  // It keeps nothing without a lease, which the fault before may have cost it. When it renews one
  // again, the last was answered.
  for (const _renewal of [1, 2]) {
    const token = await leaseToken(cluster, name);
    await eventually(async () => assert.notEqual(await leaseToken(cluster, name), token));
  }
  await eventually(async () => assert.equal((await readRisk()).status, 200));
  return readRisk;
}

/** A gateway that is cut off continues answering what it knew, marked as stale. */
async function cutOffGateway(cluster: Cluster, ms: number): Promise<void> {
  const readRisk = await knowsQuiet(cluster, 'gateway-2', cluster.gateways[1]!);
  await cutOff(cluster, 'gateway-2', ms, async () => {
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

/**
 * Does something to the connections of nodes to the bus, for so long. They stay open, so that what
 * is late arrives in the end.
 */
async function disturb(
  { proxies }: Cluster,
  names: readonly Cuttable[],
  ms: number,
  begin: (proxy: Proxy) => void,
): Promise<void> {
  const disturbed = names.map((name) => proxies[name]!);
  await delay(beforeMs);
  for (const proxy of disturbed) begin(proxy);
  try {
    await delay(ms);
  } finally {
    for (const proxy of disturbed) proxy.mend();
  }
  await delay(1000);
}

/** Resets their connections over and over. */
async function resetOverAndOver(
  { proxies }: Cluster,
  names: readonly Cuttable[],
  ms: number,
): Promise<void> {
  await delay(beforeMs);
  for (const until = performance.now() + ms; performance.now() < until;) {
    for (const name of names) proxies[name]!.reset();
    await delay(200);
  }
  await delay(reconnectMs);
}

/** Stops NATS where it is, with its connections open. */
async function pauseBus({ bus }: Cluster, ms: number): Promise<void> {
  await delay(beforeMs);
  process.kill(bus.pid, 'SIGSTOP');
  try {
    await delay(ms);
  } finally {
    process.kill(bus.pid, 'SIGCONT');
  }
  await delay(reconnectMs);
}

/** On a busy machine the first answers of a gateway that has joined take a while. */
const untilItAnswers = ({ tenant }: Cluster, { url }: Running): Promise<void> =>
  eventually(async () => {
    const at = new Client(url, tenant.admin.token);
    const { status, text } = await at.get(`/tenants/${tenant.id}/config/risk`);
    assert.equal(status, 200, text);
  });

/**
 * A gateway that was given a longer T than all others, as in a rolling change, may serve for that
 * long when it is cut off.
 */
function unequalFences(): Fault {
  const patientMs = 3 * fenceMs;
  let late: Answer | undefined;
  return {
    name: 'a gateway joins during writes with a longer fence than the others, and is cut off silently: they wait for it',
    long: true,
    async inject(cluster) {
      const name = 'gateway-patient';
      const own = { COHERENCE_FENCE_MS: String(patientMs) };
      const gateway = await cluster.start(name, ['gateway'], own);
      cluster.gateways.push(gateway);
      await untilItAnswers(cluster, gateway);
      const readRisk = await knowsQuiet(cluster, name, gateway);
      const readLate = async (): Promise<void> => {
        // Longer than the others may, with two seconds to spare for a busy machine: its last poll may be a
        // quarter of its T old when it is cut off.
        await delay(beforeMs + 1.2 * fenceMs);
        late = await readRisk();
      };
      const cutOff = disturb(cluster, [name], patientMs + 1000, (proxy) => {
        proxy.hold('there');
        proxy.hold('back');
      });
      await Promise.all([cutOff, readLate()]);
    },
    shows() {
      assert(late, 'it was not read');
      assert.equal(late.status, 200, late.text);
      assert.equal(late.headers.get('x-config-stale'), null);
    },
  };
}

/**
 * A second process with the name of one that runs. Whichever of them continues, neither answers for
 * the other.
 */
async function startTwin(cluster: Cluster): Promise<void> {
  await delay(beforeMs);
  const [, first] = cluster.gateways;
  const twin = await cluster.start('gateway-2', ['gateway']).catch(() => undefined);
  if (twin) cluster.gateways.push(twin);
  await delay(2500);
  if (twin) cluster.gateways.splice(cluster.gateways.indexOf(twin), 1);
  await twin?.stop('SIGKILL');
  if (!isAlive(first!)) await cluster.revive(first!);
  await delay(1000);
}

/** Until some of the clients' writes are answered, which a restore will lose. */
async function someAreWritten({ database, tenant }: Cluster): Promise<void> {
  const newest = async (): Promise<number> => {
    const [found] = await database.query<{ revision: number }>(
      'SELECT revision::float8 AS revision FROM strata.revisions WHERE scope = $1',
      [`tenant:${tenant.id}`],
    );
    return found!.revision;
  };
  const before = await eventually(newest);
  await eventually(
    async () => assert(before + 10 < (await newest()), 'nothing is written'),
    60_000,
  );
}

/**
 * A document that nobody writes beside a fault, so that nothing but the fault makes nodes drop what
 * they know of it.
 */
const quietPath = ({ tenant }: Cluster): string => `/tenants/${tenant.id}/config/agents/quiet`;

/** Writes it, and has every gateway know it. */
async function writeQuietly(cluster: Cluster, value: number): Promise<void> {
  const { gateways, tenant } = cluster;
  const at = ({ url }: Running): Client => new Client(url, tenant.admin.token);
  await eventually(async () => {
    const { status, text } = await at(gateways[0]!).put(quietPath(cluster), { custom: { value } });
    assert(status < 300, text);
  });
  for (const gateway of gateways)
    await eventually(async () => {
      const { body, text } = await at(gateway).get(quietPath(cluster));
      assert.equal(body?.custom?.value, value, text);
    });
}

/** For a while, no gateway answers anything else of it unless marked stale. */
async function assertQuietly(cluster: Cluster, value: number): Promise<void> {
  for (const until = performance.now() + 1500; performance.now() < until; await delay(20)) {
    for (const { url } of cluster.gateways) {
      const read = await new Client(url, cluster.tenant.admin.token).get(quietPath(cluster));
      const isMarked = read.headers.get('x-config-stale') === 'true';
      if (read.status === 200 && !isMarked)
        assert.equal(read.body.custom.value, value, `${url} answers what is not in the database`);
    }
  }
}

/** When the database began to stop answering in its newer state, and when it had. */
interface Stopped {
  readonly at: number;
  readonly by: number;
}

/** `goBack` loses what `afterwards` does. */
async function losing(
  cluster: Cluster,
  goBack: (afterwards: () => Promise<void>) => Promise<Stopped>,
): Promise<WentBack> {
  await delay(beforeMs);
  await writeQuietly(cluster, 1);
  const { at, by } = await goBack(async () => {
    await writeQuietly(cluster, 2);
    await someAreWritten(cluster);
  });
  // Until its last lease from before is over, a node has not had to ask the database.
  const until = by + fenceMs;
  await delay(Math.max(0, until - performance.now()));
  await assertQuietly(cluster, 1);
  await delay(1000);
  return { at, until };
}

/** Puts the database back to what it was a while before, under running nodes. */
const restore = (cluster: Cluster): Promise<WentBack> =>
  losing(cluster, async (afterwards) => {
    const putBack = await cluster.database.backUp();
    await afterwards();
    const at = performance.now();
    const by = await putBack();
    return { at, by };
  });

/** The same with the files of the whole server, which therefore starts again. */
const restoreFiles = (cluster: Cluster): Promise<WentBack> =>
  losing(cluster, async (afterwards) => {
    let backup = '';
    await cluster.postgres.restart('SIGINT', (directory) => {
      backup = `${directory}.backup`;
      rmSync(backup, { recursive: true, force: true });
      copyFiles(directory, backup);
    });
    await afterwards();
    const at = performance.now();
    let by = at;
    await cluster.postgres.restart('SIGQUIT', (directory) => {
      by = performance.now();
      rmSync(directory, { recursive: true });
      renameSync(backup, directory);
    });
    return { at, by };
  });

/** The server is killed, and restored from a backup to a moment after that, as operators do. */
const restoreToMoment = (cluster: Cluster): Promise<WentBack> =>
  losing(cluster, async (afterwards) => {
    const { database, postgres } = cluster;
    const directory = mkdtempSync(join(tmpdir(), 'strata-backup-'));
    chmodSync(directory, 0o755);
    try {
      const goBack = await backUpServer(postgres, join(directory, 'backup'));
      await writeQuietly(cluster, 1);
      const [now] = await database.query<{ moment: Date }>('SELECT clock_timestamp() AS moment');
      await afterwards();
      const at = performance.now();
      let by = at;
      await goBack(now!.moment.toISOString(), () => {
        by = performance.now();
      });
      return { at, by };
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });

/** With owners and rights. */
const copyFiles = (from: string, to: string): void => {
  execFileSync('cp', ['-a', from, to]);
};

/** A standby takes the primary's place, which has not observed it for a while when it is killed. */
export const failOver = (
  server: ReplicatedServer,
  { synchronous }: { synchronous: boolean },
): Fault => ({
  name: `${synchronous ? 'a synchronous' : 'an asynchronous'} standby of PostgreSQL takes over`,
  async inject(cluster) {
    if (!synchronous)
      return losing(cluster, async (afterwards) => {
        const at = await server.failOver(afterwards);
        return { at, by: at };
      });
    await delay(beforeMs);
    await writeQuietly(cluster, 3);
    // Nothing is answered while it hears nothing.
    const at = await server.failOver(() => delay(1000));
    await delay(Math.max(0, at + fenceMs - performance.now()));
    await assertQuietly(cluster, 3);
    return undefined;
  },
});

/**
 * The address leads to a standby that stands still, for so long. Nobody stays there, which would be
 * to answer what was true then.
 */
export const visitStandby = (server: ReplicatedServer, ms: number): Fault => ({
  name: 'the address of PostgreSQL leads to a standby for a moment',
  async inject(cluster) {
    await delay(beforeMs);
    const connectionsThere = await server.visitStandby(() => delay(ms));
    await writeQuietly(cluster, 4);
    assert.equal(await connectionsThere(), 0, 'connections to the standby stay');
    await delay(fenceMs);
    await assertQuietly(cluster, 4);
  },
});

/**
 * A standby takes over, and the former primary still answers those that are connected to it. Nobody
 * stays there, although nothing ends these connections.
 */
export const demote = (server: ReplicatedServer): Fault => ({
  name: 'the primary of PostgreSQL is demoted, and continues answering reads',
  async inject(cluster) {
    await delay(beforeMs);
    await writeQuietly(cluster, 5);
    const connectionsThere = await server.demote();
    await writeQuietly(cluster, 6);
    await assertQuietly(cluster, 6);
    await eventually(async () =>
      assert.equal(await connectionsThere(), 0, 'connections to the former primary stay'),
    );
    await assertQuietly(cluster, 6);
  },
});

/** An open transaction keeps the snapshots of all polls as old as it is. */
async function openTransactionBeside({ postgres }: Cluster, ms: number): Promise<void> {
  const beside = await createDatabase(postgres.url);
  const client = new pg.Client({ connectionString: beside.url });
  await client.connect();
  await client.query('BEGIN; SELECT pg_current_xact_id()');
  await delay(ms);
  await client.end();
  await beside.drop();
}

/** A lease of a process that is gone without giving it back. Writes wait for it once. */
async function leaveLeaseBehind({ database }: Cluster): Promise<void> {
  await delay(beforeMs);
  await database.query(
    `INSERT INTO strata.leases (holder, token, fence_ms, cursor) VALUES ($1, $2, ${fenceMs}, NULL)`,
    [`gone ${randomUUID()}`, randomUUID()],
  );
  await delay(fenceMs + 1500);
}

export const faults: readonly Fault[] = [
  { name: 'nothing goes wrong', long: true, unnoticed: true, inject: () => delay(2500) },
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
    long: true,
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
    long: true,
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
    long: true,
    async inject(cluster) {
      const joined = await cluster.start('gateway-late', ['gateway']);
      cluster.gateways.push(joined);
      await untilItAnswers(cluster, joined);
      await delay(1500);
    },
    shows({ reads }, { gateways }) {
      assert(
        reads.some(({ node }) => node === gateways.at(-1)!.url),
        'nothing was read on the node that joined',
      );
    },
  },
  {
    name: 'one of each service and a gateway are killed in the middle of requests',
    long: true,
    breaksConnections: true,
    inject: (cluster) =>
      killInTurn(cluster, [cluster.services[0]!, cluster.services[2]!, cluster.gateways[1]!]),
  },
  {
    name: 'a transaction stays open in another database of the server',
    long: true,
    unnoticed: true,
    inject: (cluster) => openTransactionBeside(cluster, 2000),
  },
  {
    name: 'a lease is left behind by a process that is gone',
    long: true,
    inject: leaveLeaseBehind,
    shows({ slowestWriteMs }) {
      assert(slowestWriteMs > fenceMs / 2, 'no write waited for the lease');
    },
  },
  {
    name: 'NATS is paused for 1.5 s',
    long: true,
    inject: (cluster) => pauseBus(cluster, 1500),
  },
  {
    name: 'a gateway and a platform service hear nothing for 3 s, and are heard',
    long: true,
    inject: (cluster) =>
      disturb(cluster, ['gateway-2', 'platform-service'], 3000, (proxy) => proxy.hold('back')),
  },
  {
    name: 'a gateway and a platform service are not heard for 3 s, and hear',
    long: true,
    inject: (cluster) =>
      disturb(cluster, ['gateway-2', 'platform-service'], 3000, (proxy) => proxy.hold('there')),
  },
  {
    name: 'a gateway and a service are 300 ms from the bus',
    long: true,
    inject: (cluster) =>
      disturb(cluster, ['gateway-2', 'config-2'], 3000, (proxy) => proxy.slow(300)),
  },
  {
    name: "a gateway's and a platform service's connections are reset over and over",
    long: true,
    inject: (cluster) => resetOverAndOver(cluster, ['gateway-2', 'platform-service'], 3000),
  },
  unequalFences(),
  {
    name: "the database's clock goes forward by an hour, and back",
    long: true,
    async inject({ postgres }) {
      await delay(beforeMs);
      await postgres.setClock(3600);
      await delay(1000);
      await postgres.setClock(0);
      await delay(1000);
    },
  },
  {
    name: 'a second process has the NODE_ID of a gateway',
    long: true,
    breaksConnections: true,
    inject: startTwin,
  },

  {
    name: 'the database is restored to an older state',
    long: true,
    inject: restore,
  },
  {
    name: "the whole server's files are restored to an older state",
    long: true,
    inject: restoreFiles,
  },
  {
    name: 'the server is killed, and restored to a moment from a backup that was taken under load',
    long: true,
    inject: restoreToMoment,
  },
  {
    name: 'NATS is paused for 8 s',
    long: true,
    inject: (cluster) => pauseBus(cluster, 8000),
  },
  {
    name: 'a service hears nothing for 6 s, and is heard',
    long: true,
    inject: (cluster) => disturb(cluster, ['config-2'], 6000, (proxy) => proxy.hold('back')),
  },
  {
    name: 'a service is not heard for 6 s, and hears',
    long: true,
    inject: (cluster) => disturb(cluster, ['config-2'], 6000, (proxy) => proxy.hold('there')),
  },
  {
    name: 'a gateway and a platform service are 1 s from the bus',
    long: true,
    inject: (cluster) =>
      disturb(cluster, ['gateway-2', 'platform-service'], 8000, (proxy) => proxy.slow(1000)),
  },
  {
    name: 'a service is 1 s from the bus',
    long: true,
    inject: (cluster) => disturb(cluster, ['config-2'], 8000, (proxy) => proxy.slow(1000)),
  },
  {
    name: "a service's connection is reset over and over",
    long: true,
    inject: (cluster) => resetOverAndOver(cluster, ['config-2'], 6000),
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

/** How late this process may be on a machine that has time for it. */
const busyMs = 150;
export const timeoutError = / 504 timeout$/;
/**
 * What an error of a client may be: an outage with its code, or a connection that broke where the
 * fault breaks some.
 */
const outageError = / 50[34] (service_unavailable|timeout)$/;
export const connectionError = /fetch failed|terminated|ECONNRESET/;

/**
 * Where this process had to wait for a processor, the nodes had to, too, and requests run into
 * their time limit by that alone.
 */
export const wasBusy = ({ lateMs }: Pick<Observed, 'lateMs'>): boolean => lateMs > busyMs;

/** Throws what is wrong with what was observed under a fault. */
export function assertCoherent(
  observed: Observed,
  { unnoticed, breaksConnections, pausedMs = 0 }: Omit<Fault, 'name' | 'inject'> = {},
): void {
  const problems = violations(observed);
  const examples = problems.slice(0, 5).join('\n');
  assert(problems.length === 0, `${problems.length} violations, such as\n${examples}`);

  assert(observed.writes.length > minWrites, `only ${observed.writes.length} writes were answered`);
  assert(freshOnes(observed.reads).length > minWrites * 5, 'hardly anything was read');

  const errors = [...observed.errors.keys()];
  // Leases run out on such a machine, too.
  if (unnoticed)
    assert.deepEqual(
      errors.filter((error) => !(wasBusy(observed) && outageError.test(error))),
      [],
    );
  for (const error of errors) {
    const mayHappen =
      outageError.test(error) || (breaksConnections === true && connectionError.test(error));
    assert(mayHappen, `a client saw ${error}`);
  }
  // Far less than a request without its limit would take, and with room for a busy machine.
  const patienceMs = requestTimeoutMs + pausedMs + 10_000 + 3 * observed.lateMs;
  assert(observed.slowestMs < patienceMs, `a client waited ${Math.round(observed.slowestMs)} ms`);
}

/**
 * Writes once more, and waits until every gateway answers what was written; throws if one does not.
 */
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
    });
  }
}

export interface Survived extends Observed {
  /** Answered writes that the database lost when it went back. */
  readonly lost: readonly Operation[];
}

export interface SurviveOptions extends ObserveOptions {
  /**
   * How often the fault is injected until an observation shows what it is for, and had no error
   * where nobody notices it. On a calm machine the first does.
   */
  readonly tries?: number;
}

/**
 * Injects the fault while clients write and read; throws if what they saw is wrong, if the database
 * has not what it answered, or if not every gateway is well afterwards. Gateways that joined are
 * stopped again.
 */
export async function survive(
  cluster: Cluster,
  fault: Fault,
  { tries = 1, ...options }: SurviveOptions = {},
): Promise<Survived> {
  const gateways = cluster.gateways.length;
  const stopJoined = (): Promise<unknown> =>
    Promise.all(cluster.gateways.splice(gateways).map((joined) => joined.stop()));
  const observeFault = (): Promise<Observed> =>
    observe(cluster, () => fault.inject(cluster), options);
  try {
    let observed = await observeFault();
    // An error that the fault makes comes again, and so does a history that cannot show it; one of
    // a machine that was too busy for a moment does not.
    for (let left = tries - 1; left > 0 && !saysEnough(observed, fault, cluster); left -= 1) {
      assertCoherent(observed, { ...fault, unnoticed: false });
      await lostWrites(cluster, observed);
      await stopJoined();
      observed = await observeFault();
    }
    assertCoherent(observed, fault);
    fault.shows?.(observed, cluster);
    await gatewaysAgree(cluster);
    const lost = await lostWrites(cluster, observed);
    if (observed.wentBack)
      assert(lost.length > 0, 'the database went back to a state with all writes');
    return { ...observed, lost };
  } finally {
    await stopJoined();
  }
}

function saysEnough(observed: Observed, { unnoticed, shows }: Fault, cluster: Cluster): boolean {
  if (unnoticed && observed.errors.size > 0) return false;
  try {
    shows?.(observed, cluster);
    return true;
  } catch {
    return false;
  }
}
