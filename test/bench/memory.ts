/** What a node costs: memory idle and under load, a cached entry, the change feed, a start. */
import { once } from 'node:events';
import { mkdtempSync, rmSync, chmodSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../support/cluster.ts';
import { Client, createTenant, secretKey } from '../support/strata.ts';
import { freePort } from '../support/servers.ts';
import { load } from './load.ts';
import { cpuMs, cpuMsOfFamily, loadCore, rssMiB, serverCore } from './machine.ts';
import type { Comparison, Fact, Group } from './report.ts';
import { platformAdmin, startNode, startStage, type Node, type Stage } from './stage.ts';

const entries = 20_000;
/** For nodes that have just started to come to rest. */
const settleMs = 15_000;
/**
 * For what requests have left behind to be collected: V8 does that when little has been allocated
 * for a while, and at the latest 100 s after it last has (`kWatchdogDelayMs` of its
 * MemoryReducer). That takes a gateway 0.1 s once, which would pass for twice its idle cost.
 */
const collectedMs = 110_000;
/** The system counts processor time in hundredths of a second. */
const watchedSeconds = 20;

/** A measurement beside the most that it should be. */
const bounded = (
  what: string,
  unit: string,
  most: number,
  strata: readonly number[],
): Comparison => ({
  what,
  peer: `${most} ${unit}`,
  unit,
  strata,
  baseline: strata.map(() => most),
  goal: { atMost: 1 },
});

export const memory: Group = async ({ rounds, seconds }) => {
  const facts: Fact[] = [];
  const rows: Comparison[] = [];
  const note = (what: string, result: string): void => {
    facts.push({ what, result });
  };
  const stage = await startStage();
  try {
    const config = await stage.start(['tenant-config', 'global-config'], loadCore, stage.clustered);
    // A gateway waits longer for a piece that it calls and that is not there.
    const identity = await stage.start(
      ['auth', 'audit', 'config-resolver', 'notifier'],
      loadCore,
      stage.clustered,
    );
    const gateway = await stage.start(['gateway'], serverCore, stage.clustered);
    const nodes = {
      gateway,
      'tenant-config and global-config': config,
      'auth, audit, config-resolver and notifier': identity,
    };
    const platform = await eventually(() => platformAdmin(gateway.url));
    const { id, admin } = await eventually(() => createTenant(gateway.url, platform, 'Bench'));
    const path = `/tenants/${id}/config/risk`;
    const headers = { authorization: `Bearer ${admin.token}` };
    const idle = Object.values(nodes).map(({ pid }) => rssMiB(pid));
    rows.push(bounded('memory (RSS) of an idle gateway', 'MiB', 180, [idle[0]!]));

    await stage.database.query(
      `INSERT INTO tenant_config.service_configurations SELECT $1::uuid, 'service-' || n,
         json_build_object('service_id', 'service-' || n, 'service_type', 'cloud_run', 'min_instances', 0, 'max_instances', n % 50), 2, 'bench', now()
       FROM generate_series(1, $2::int) n`,
      [id, entries],
    );
    await load(
      { origin: gateway.url, requests: [{ path, headers }], expect: (await admin.get(path)).text },
      { connections: 64, seconds: seconds * 3 },
    );
    for (const [each, [name, { pid }]] of Object.entries(nodes).entries()) {
      note(
        `memory (RSS) of ${name}: idle / after ${seconds * 3} s of cached reads`,
        `${idle[each]!.toFixed(0)} / ${rssMiB(pid).toFixed(0)} MiB`,
      );
    }
    note(
      `a cached service instance: heap / as the cache counts it (${entries.toLocaleString('en')} entries)`,
      await entryBytes(stage, id, admin),
    );

    /** Processor time that polls of the feed and heartbeats take, in milliseconds a second. */
    const idleCost = async (): Promise<Record<'node' | 'host' | 'database', number>> => {
      const used = () => ({
        node: cpuMs(gateway.pid),
        host: cpuMs(config.pid) + cpuMs(identity.pid),
        database: cpuMsOfFamily(stage.postgres.pid),
      });
      const from = used();
      await delay(watchedSeconds * 1000);
      const to = used();
      return {
        node: (to.node - from.node) / watchedSeconds,
        host: (to.host - from.host) / watchedSeconds,
        database: (to.database - from.database) / watchedSeconds,
      };
    };
    await delay(collectedMs);
    const alone = await idleCost();
    const furtherGateways = 4;
    for (let each = 0; each < furtherGateways; each += 1)
      await stage.start(['gateway'], loadCore, stage.clustered);
    await delay(settleMs);
    const together = await idleCost();
    const added = (part: 'host' | 'database'): number =>
      Math.max(0, (together[part] - alone[part]) / furtherGateways);
    rows.push(
      bounded('processor time a second of an idle gateway', 'ms', 10, [alone.node]),
      bounded('what it adds in PostgreSQL, for its polls', 'ms', 0.3, [added('database')]),
    );
    note(
      'what it adds at the nodes with a database, for its polls and heartbeats',
      `${added('host').toFixed(1)} ms of processor time per second`,
    );

    const starts: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const began = performance.now();
      const node = await stage.start(['gateway'], serverCore, stage.clustered);
      await ready(node);
      starts.push(performance.now() - began);
      await node.stop();
    }
    rows.push(bounded('start of a gateway until it is ready', 'ms', 1200, starts));
  } finally {
    await stage.stop();
  }
  const [first, ...again] = await embeddedStarts(rounds);
  rows.push(bounded('start of everything, embedded, until it is ready, again', 'ms', 2000, again));
  note('the first such start, which makes the database', `${first!.toFixed(0)} ms`);
  return { rows, facts };
};

const ready = ({ url }: Node): Promise<void> =>
  eventually(async () => {
    const { status, text } = await new Client(url).get('/readyz');
    if (status !== 200) throw new Error(text);
  });

/**
 * What one cached entry takes: of the heap after a garbage collection, on a gateway of its own, and
 * by the cache's own count.
 */
async function entryBytes(stage: Stage, tenantId: string, { token }: Client): Promise<string> {
  const inspected = await freePort();
  const gateway = await stage.start(['gateway'], loadCore, {
    ...stage.clustered,
    NODE_OPTIONS: `--inspect=127.0.0.1:${inspected}`,
  });
  const client = new Client(gateway.url, token);
  const read = (n: number): Promise<void> =>
    eventually(async () => {
      const { status, text } = await client.get(`/tenants/${tenantId}/services/service-${n}`);
      if (status !== 200) throw new Error(text);
    });
  await read(1);
  const before = await summaryOf(gateway, inspected);
  let next = 1;
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      while (next < entries) {
        next += 1;
        await read(next);
      }
    }),
  );
  const after = await summaryOf(gateway, inspected);
  await gateway.stop();
  const kept = after.entries - before.entries;
  // What is read while a lease is late is not kept.
  if (kept < entries * 0.9) throw new Error(`${kept} of ${entries - 1} entries were kept`);
  return `${((after.heap - before.heap) / kept).toFixed(0)} / ${((after.bytes - before.bytes) / kept).toFixed(0)} bytes`;
}

async function summaryOf(
  { url }: Node,
  inspected: number,
): Promise<{ entries: number; bytes: number; heap: number }> {
  const heap = await heapBytes(inspected);
  const { text } = await new Client(url).get('/metrics');
  const cache = (name: string): number =>
    result(text, `strata_cache_${name}{cache="configuration_service"}`);
  return { entries: cache('entries'), bytes: cache('bytes'), heap };
}

/**
 * The heap in use after a garbage collection, over the inspector (Chrome DevTools Protocol:
 * HeapProfiler, Runtime).
 */
async function heapBytes(port: number): Promise<number> {
  const [target] = (await (await fetch(`http://127.0.0.1:${port}/json/list`)).json()) as {
    webSocketDebuggerUrl: string;
  }[];
  const socket = new WebSocket(target!.webSocketDebuggerUrl);
  await once(socket, 'open');
  const ask = async <T>(method: string): Promise<T> => {
    const answered = once(socket, 'message') as Promise<[{ data: string }]>;
    socket.send(JSON.stringify({ id: 1, method }));
    const [{ data }] = await answered;
    return (JSON.parse(data) as { result: T }).result;
  };
  await ask('HeapProfiler.collectGarbage');
  const { usedSize } = await ask<{ usedSize: number }>('Runtime.getHeapUsage');
  socket.close();
  return usedSize;
}

const result = (text: string, name: string): number => {
  const line = text.split('\n').find((each) => each.startsWith(`${name} `));
  if (line === undefined) throw new Error(`/metrics has no ${name}`);
  return Number(line.slice(name.length + 1));
};

async function embeddedStarts(rounds: number): Promise<number[]> {
  const folder = mkdtempSync(join(tmpdir(), 'strata-bench-'));
  chmodSync(folder, 0o755);
  try {
    const took: number[] = [];
    for (let round = 0; round <= rounds; round += 1) {
      const began = performance.now();
      const node = await startNode(join(folder, `${round}.log`), [], serverCore, {
        DATA_DIR: join(folder, 'data'),
        SECRET_KEY: secretKey,
      });
      await ready(node);
      took.push(performance.now() - began);
      await node.stop();
    }
    return took;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
