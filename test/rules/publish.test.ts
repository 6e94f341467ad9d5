/**
 * When a write may be answered: `Coherence.publish` beside a lease table and other nodes of the
 * test's own.
 */
import { expect, jest, test } from '@jest/globals';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import pino from 'pino';
import { Coherence, type ClusterLink } from '../../shared/coherence/coherence.ts';
import type { Lease } from '../../shared/coherence/feed.ts';
import { WakeableWait } from '../../shared/concurrency/wakeable-wait.ts';

const fenceMs = 1000;
const change = { id: '7', scope: 'tenant:x', revision: 1, keys: ['risk_config_x'] };

/** A lease as the table shows it, of a holder that has not read the change. */
const lease = (holder: string, more: Partial<Lease> = {}): Lease => ({
  holder,
  token: 'one',
  fenceMs,
  hasRead: false,
  ...more,
});

/**
 * A writing node. `leases` answers for the lease table beside its own, and is told how often it has
 * been read for the change so far; `counted.reads` is that number at the end. `published()` commits
 * the change and resolves to how many milliseconds the write waited.
 */
async function writer(
  leases: (reads: number) => Lease[] | Promise<Lease[]>,
  {
    server = 'here',
    ownFenceMs = fenceMs,
    ...link
  }: Partial<ClusterLink> & { server?: string; ownFenceMs?: number } = {},
) {
  const counted = { reads: 0 };
  const coherence = new Coherence({
    nodeId: 'writer',
    fenceMs: ownFenceMs,
    requestTimeoutMs: 1000,
    ttlMinutes: () => 5,
    staleIdentityMs: () => 1000,
    log: pino({ level: 'silent' }),
  });
  await coherence.start({
    poll: async () => ({ cursor: '1', complete: true, changes: [], server: 'here' }),
    leave: async () => {},
    broadcast: () => {},
    hearsOthers: async () => true,
    leases: async (changeId) => {
      if (changeId === change.id) counted.reads += 1;
      const others = await leases(counted.reads);
      return { server, leases: [lease(coherence.holder), ...others] };
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
  const { coherence, counted, published } = await writer(() => [lease('a'), lease('b')], {
    // It would be read again after a twentieth of that, which must not be over by then.
    ownFenceMs: 30_000,
    broadcast: (sent) => {
      for (const node of ['a', 'b']) setImmediate(() => coherence.acknowledge(sent, node));
    },
  });
  await published();
  expect(counted.reads).toBe(1);
  expect(coherence.counters.fences).toBe(0);
});

test('of a thousand acknowledgements only the last one wakes the write', async () => {
  const waits = jest.spyOn(WakeableWait.prototype, 'wait');
  const names = Array.from({ length: 1000 }, (_each, index) => `node-${index}`);
  const { coherence, published } = await writer(() => names.map((name) => lease(name)), {
    broadcast: (sent) => {
      // They arrive one by one, once the write knows whom it waits for.
      const acknowledge = (index: number): void => {
        coherence.acknowledge(sent, names[index]!);
        if (index + 1 < names.length) setImmediate(() => acknowledge(index + 1));
      };
      setTimeout(() => acknowledge(0), 20);
    },
  });
  waits.mockClear();
  await published();
  expect(coherence.counters.fences).toBe(0);
  expect(waits.mock.calls.length).toBeLessThan(20);
  waits.mockRestore();
});

test('a write is answered as soon as it is acknowledged', async () => {
  let sent = change;
  const { coherence } = await writer(
    () => {
      // Once the write knows whom it waits for, so that the acknowledgement finds it waiting.
      const read = sent;
      setTimeout(() => coherence.acknowledge(read, 'a'), 1);
      return [lease('a', { token: read.id })];
    },
    { broadcast: () => {} },
  );
  const times: number[] = [];
  coherence.onPublished((ms) => times.push(ms));
  // The quickest of several, since a busy machine may delay any one of them.
  const isQuick = (): boolean => Math.min(...times) < fenceMs / 20;
  for (let revision = 1; revision <= 200 && !isQuick(); revision += 1) {
    sent = { ...change, id: String(revision), revision };
    await coherence.publish([sent]);
  }
  await coherence.stop();
  expect(isQuick()).toBe(true);
});

test('a change of several writes is told once, and each of them waits for it', async () => {
  const received: string[] = [];
  const { coherence, counted } = await writer(() => [lease('a')], {
    broadcast: ({ id }) => received.push(id),
  });
  const answered: number[] = [];
  const writes = [1, 2].map(async (write) => {
    await coherence.publish([change]);
    answered.push(write);
  });
  await delay(fenceMs / 10);
  expect(answered).toEqual([]);
  coherence.acknowledge(change, 'a');
  await Promise.all(writes);
  // Also for a write that ends a moment later.
  await coherence.publish([change]);
  await coherence.stop();
  expect([received, counted.reads, coherence.counters.fences]).toEqual([[change.id], 1, 0]);
});

test('an acknowledgement of another change does not count, and a silent node costs the fence', async () => {
  const { coherence, published } = await writer(() => [lease('a')], {
    broadcast: (sent) => {
      for (const id of ['6', '8']) setImmediate(() => coherence.acknowledge({ ...sent, id }, 'a'));
    },
  });
  expect(await published()).toBeGreaterThanOrEqual(fenceMs - 1);
  expect(coherence.counters.fences).toBe(1);
});

test('a node that saw the change in the feed, or left, is waited for no longer', async () => {
  const { coherence, counted, published } = await writer((reads) => [
    lease('a', { hasRead: reads > 1 }),
  ]);
  await published();
  expect(counted.reads).toBe(2);
  expect(coherence.counters.fences).toBe(0);
});

test('where the lease table does not answer, only the fence is safe', async () => {
  const { coherence, published } = await writer(() => {
    throw new Error('away');
  });
  expect(await published()).toBeGreaterThanOrEqual(fenceMs - 1);
  expect(coherence.counters.fences).toBe(1);
});

test('where the lease table stays silent, the write does not wait for it longer than the fence', async () => {
  const { published } = await writer(() => new Promise(() => {}));
  const waited = await published();
  expect(waited).toBeGreaterThanOrEqual(fenceMs - 1);
  expect(waited).toBeLessThan(30 * fenceMs);
});

test('a holder whose T is longer is waited for that long', async () => {
  const longer = 1.5 * fenceMs;
  const { published } = await writer(() => [lease('a', { fenceMs: longer })]);
  expect(await published()).toBeGreaterThanOrEqual(longer - 1);
});

test('a lease that was seen unchanged for T is over, and its holder is waited for no longer', async () => {
  const { coherence, published } = await writer(() => [lease('a')]);
  await delay(1.5 * fenceMs);
  await published();
  expect(coherence.counters.fences).toBe(0);
});

test('a lease that is renewed all the time is waited for, whatever any clock says', async () => {
  const tokens = { made: 0 };
  const renewed = (): Lease[] => {
    tokens.made += 1;
    return [lease('a', { token: String(tokens.made) })];
  };
  const { published } = await writer(renewed);
  await delay(1.5 * fenceMs);
  expect(await published()).toBeGreaterThanOrEqual(fenceMs - 1);
});

test('the lease table of another server than the polls were answered by proves nothing', async () => {
  const { published } = await writer(() => [], { server: 'a standby that took over' });
  expect(await published()).toBeGreaterThanOrEqual(fenceMs - 1);
});
