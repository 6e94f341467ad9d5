/**
 * A platform service's node that reads of so many tenants the risk limits, two service instances
 * and an effective configuration, and prints what that adds to the heap after a garbage collection,
 * with what its caches count. `tenants-in-memory.ts <nats> <how many>`, and with a path behind that
 * writes a heap snapshot there.
 */
import { setFlagsFromString, writeHeapSnapshot } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { setTimeout as delay } from 'node:timers/promises';
import { serviceCaller } from '../../../shared/access.ts';
import { bareNode } from '../bare-node.ts';
import { instancesOfTenant, tenantId } from '../tenants.ts';

export interface Kept {
  readonly heap: number;
  readonly entries: number;
  /** As the caches count them. */
  readonly bytes: number;
}

const [natsUrl, tenants, snapshot] = [process.argv[2]!, Number(process.argv[3]), process.argv[4]];
/**
 * Read before anything is measured: code is compiled, and what does not grow with tenants is there.
 */
const warmUps = 200;
const atOnce = 32;

const { broker, coherence } = bareNode('reader-of-tenants', natsUrl);
await broker.start();
await broker.waitForServices(['tenant-config', 'config-resolver']);
while (!coherence.hasLease()) await delay(50);

const options = { meta: { caller: serviceCaller('bench') } };
async function readTenant(tenant_id: string): Promise<void> {
  await broker.call('tenant-config.risk.get', { tenant_id }, options);
  for (const service_id of instancesOfTenant)
    await broker.call('tenant-config.services.get', { tenant_id, service_id }, options);
  const question = { tenant_id, agent_type: 'cost_optimizer', service_id: instancesOfTenant[0]! };
  await broker.call('config-resolver.resolve', question, options);
}

async function readTenants(from: number, to: number): Promise<void> {
  let next = from;
  const readOn = async (): Promise<void> => {
    while (next < to) {
      const index = next;
      next += 1;
      await readTenant(tenantId(index));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, readOn));
}

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
/**
 * What ended with the last answers is gone after some seconds, the last of it being what waited for
 * time-outs.
 */
const settledMs = 5000;
async function measured(): Promise<Kept> {
  await delay(settledMs);
  collect();
  const stats = Object.values(coherence.caches).map((cache) => cache.stats());
  return {
    heap: process.memoryUsage().heapUsed,
    entries: stats.reduce((sum, { entries }) => sum + entries, 0),
    bytes: stats.reduce((sum, { bytes }) => sum + bytes, 0),
  };
}

await readTenants(0, warmUps);
const before = await measured();
await readTenants(warmUps, warmUps + tenants);
const after = await measured();
if (snapshot) writeHeapSnapshot(snapshot);
const kept: Kept = {
  heap: after.heap - before.heap,
  entries: after.entries - before.entries,
  bytes: after.bytes - before.bytes,
};
process.stdout.write(`${JSON.stringify(kept)}\n`);
await broker.stop();
process.exit();
