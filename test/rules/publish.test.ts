/** When a write may be answered: `Coherence.publish` beside a lease table and other nodes of the test's own. */
import { expect, test } from '@jest/globals';
import { performance } from 'node:perf_hooks';
import pino from 'pino';
import { Coherence, type ClusterLink } from '../../shared/cluster/coherence/coherence.ts';

const fenceMs = 1000;
const change = { id: '7', scope: 'tenant:x', revision: 1, keys: ['risk_config_x'] };

/**
 * A writing node. `holders` answers for the lease table, and is told how often it has been read so far; `counted.reads` is that
 * number at the end. `published()` commits the change and resolves to how many milliseconds the write waited.
 */
async function writer(holders: (reads: number) => string[], link: Partial<ClusterLink> = {}) {
  const counted = { reads: 0 };
  const coherence = new Coherence({
    nodeId: 'writer',
    fenceMs,
    requestTimeoutMs: 1000,
    ttlMinutes: () => 5,
    log: pino({ level: 'silent' }),
  });
  await coherence.start({
    poll: async () => ({ cursor: '1', reset: false, changes: [] }),
    leave: async () => {},
    broadcast: () => {},
    leaseHolders: async () => {
      counted.reads += 1;
      return holders(counted.reads);
    },
    ...link,
  });
  const published = async (): Promise<number> => {
    const began = performance.now();
    await coherence.publish([change]);
    await coherence.stop();
    return performance.now() - began;
  };
  return { coherence, counted, published };
}

test('the last acknowledgement ends the wait; the lease table is read once', async () => {
  const { coherence, counted, published } = await writer(() => ['writer', 'a', 'b'], {
    broadcast: (sent) => {
      for (const node of ['a', 'b']) setImmediate(() => coherence.acknowledge(sent, node));
    },
  });
  await published();
  expect(counted.reads).toBe(1);
  expect(coherence.figures.fences).toBe(0);
});

test('a write is answered as soon as it is acknowledged', async () => {
  const { coherence } = await writer(() => ['a'], {
    broadcast: (sent) => setImmediate(() => coherence.acknowledge(sent, 'a')),
  });
  const times: number[] = [];
  coherence.onPublished((ms) => times.push(ms));
  for (let revision = 1; revision <= 5; revision += 1)
    await coherence.publish([{ ...change, id: String(revision), revision }]);
  await coherence.stop();
  // The quickest of several, since a busy machine may delay any one of them.
  expect(Math.min(...times)).toBeLessThan(fenceMs / 20);
});

test('an acknowledgement of another change does not count, and a silent node costs the fence', async () => {
  const { coherence, published } = await writer(() => ['a'], {
    broadcast: (sent) => {
      for (const id of ['6', '8']) setImmediate(() => coherence.acknowledge({ ...sent, id }, 'a'));
    },
  });
  expect(await published()).toBeGreaterThanOrEqual(fenceMs - 1);
  expect(coherence.figures.fences).toBe(1);
});

test('a node that saw the change in the feed, or left, is waited for no longer', async () => {
  const { coherence, counted, published } = await writer((reads) => (reads === 1 ? ['a'] : []));
  await published();
  expect(counted.reads).toBe(2);
  expect(coherence.figures.fences).toBe(0);
});

test('where the lease table does not answer, only the fence is safe', async () => {
  const { coherence, published } = await writer(() => {
    throw new Error('away');
  });
  expect(await published()).toBeGreaterThanOrEqual(fenceMs - 1);
  expect(coherence.figures.fences).toBe(1);
});
