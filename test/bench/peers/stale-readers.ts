/**
 * A process that reads one document of a tenant from its memory, without a pause, and remembers
 * when each read began. Prints its address; POST of `[revision, answered at]…` by machineMs() tells
 * how many reads began after the answer and were older.
 *
 * - `stale-readers.ts strata <nats> <name> <tenant>`: the risk limits, as a platform service's node
 *   reads them.
 * - `stale-readers.ts redis <redis> <name> <key>`: a text under the key, in the client-side cache of
 *   node-redis (RESP3 tracking).
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { BasicClientSideCache, createClient } from '@redis/client';
import { serviceCaller } from '../../../shared/access.ts';
import { callAs } from '../../../shared/contract-runtime/request.ts';
import { bareNode, machineMs } from '../bare-node.ts';

/** Of the reads by now. */
interface Counted {
  readonly reads: number;
  readonly fromMemory: number;
}
export interface Evaluated extends Counted {
  /** Began after the answer of a write and answered with a revision from before it. */
  readonly stale: number;
  /** How long after such an answer the last of them began, in milliseconds; 0 without any. */
  readonly latestMs: number;
}
export type Answered = readonly (readonly [revision: number, at: number])[];

interface Source {
  /** The revision that it reads. */
  readonly read: () => Promise<number>;
  readonly fromMemory: () => number;
}

async function strata(natsUrl: string, name: string, tenantId: string): Promise<Source> {
  const { broker, coherence } = bareNode(name, natsUrl);
  await broker.start();
  await broker.waitForServices(['tenant-config']);
  const by = { caller: serviceCaller(name), requestId: name };
  return {
    read: async () => {
      const risk = await callAs(broker, 'tenant-config.risk.get', { tenant_id: tenantId }, by);
      return risk.revision;
    },
    fromMemory: () => coherence.caches.configuration_service.stats().hits,
  };
}

async function redis(url: string, key: string): Promise<Source> {
  const clientSideCache = new BasicClientSideCache({ ttl: 0, maxEntries: 0 });
  const client = createClient({ url, RESP: 3, clientSideCache });
  await client.connect();
  return {
    read: async () => (JSON.parse((await client.get(key))!) as { revision: number }).revision,
    fromMemory: () => clientSideCache.stats().hitCount,
  };
}

/**
 * By revision: when the last of the reads that answered it began. So many at least, which are those
 * of some milliseconds.
 */
const remembered = 4000;
const began = new Map<number, number[]>();
let reads = 0;

function note(revision: number, at: number): void {
  reads += 1;
  const times = began.get(revision) ?? [];
  began.set(revision, times);
  times.push(at);
  if (times.length >= 2 * remembered) times.splice(0, remembered);
}

/** The reads of a revision are stale that began after the next one was answered. */
function evaluate(answered: Answered, fromMemory: number): Evaluated {
  let stale = 0;
  let latestMs = 0;
  for (const [revision, times] of began) {
    const next = answered.find(([each]) => each > revision);
    if (!next) continue;
    const late = times.filter((at) => at > next[1]).map((at) => at - next[1]);
    stale += late.length;
    latestMs = Math.max(latestMs, ...late);
  }
  return { reads, fromMemory, stale, latestMs };
}

const [kind, url, name, subject] = process.argv.slice(2) as [string, string, string, string];
const source = await (kind === 'redis' ? redis(url, subject) : strata(url, name, subject));
const server = createServer((request, response) => {
  void json(request).then((answered) =>
    response.end(JSON.stringify(evaluate(answered as Answered, source.fromMemory()))),
  );
});
async function readOnce(): Promise<void> {
  const at = machineMs();
  note(await source.read(), at);
}
await readOnce();
server.listen(0, '127.0.0.1', () =>
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`),
);
for (;;) {
  await readOnce();
  // Messages must be heard meanwhile.
  await setImmediate();
}
