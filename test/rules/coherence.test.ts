/** When one node may serve from memory: its lease on the change feed, and what the feed and its own loads tell it. */
import { afterEach, expect, test } from '@jest/globals';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import pino from 'pino';
import type { Change } from '../../shared/commits/commit.ts';
import { Coherence } from '../../shared/cluster/coherence/coherence.ts';
import type { PollResult } from '../../shared/cluster/coherence/feed.ts';
import { eventually } from '../support/cluster.ts';

const fenceMs = 2000;
const scope = 'tenant:x';
const nothingNew: PollResult = { cursor: '1', reset: false, changes: [] };
const started: Coherence[] = [];
afterEach(async () => {
  for (const coherence of started.splice(0)) await coherence.stop();
});

/** A node whose feed answers as `poll` says; its first poll is over. */
async function startNode(poll: () => Promise<PollResult>): Promise<Coherence> {
  const coherence = new Coherence({
    nodeId: 'node',
    fenceMs,
    requestTimeoutMs: 1000,
    ttlMinutes: () => 5,
    log: pino({ level: 'silent' }),
  });
  started.push(coherence);
  await coherence.start({ poll, leave: async () => {}, broadcast: () => {} });
  return coherence;
}

/** Keeps a value under a key of the scope, as of a revision. */
const keep = ({ caches }: Coherence, key: string, revision: number) =>
  caches.configuration_service.read(key, [scope], async () => ({
    value: { key, revision },
    asOf: { [scope]: revision },
  }));

/** Whether the node may answer from memory now. */
const serves = ({ caches }: Coherence, key: string): boolean =>
  caches.configuration_service.get(key) !== undefined;

/** What the node has in memory, whether or not its lease lets it answer from there. */
const keysOf = ({ caches }: Coherence): string[] => caches.configuration_service.keys().toSorted();

test('the lease begins when the poll began, since writers wait no longer than that', async () => {
  const pollMs = 400;
  const polled = { at: 0 };
  const coherence = await startNode(async () => {
    polled.at = performance.now();
    await delay(pollMs);
    return nothingNew;
  });
  expect(coherence.hasLease(polled.at + fenceMs - 50)).toBe(true);
  expect(coherence.hasLease(polled.at + fenceMs + pollMs / 2)).toBe(false);
});

test('a node whose polls fail serves from memory until its lease runs out, and again after one that succeeds', async () => {
  const feed = { away: false };
  const coherence = await startNode(async () => {
    if (feed.away) throw new Error('away');
    return nothingNew;
  });
  await keep(coherence, 'k', 1);
  await eventually(async () => expect(serves(coherence, 'k')).toBe(true));
  feed.away = true;
  await eventually(async () => expect(serves(coherence, 'k')).toBe(false));
  feed.away = false;
  await eventually(async () => expect(serves(coherence, 'k')).toBe(true));
});

test('changes that only the feed brings drop their keys', async () => {
  const changes: Change[] = [];
  const coherence = await startNode(async () => ({ ...nothingNew, changes }));
  await keep(coherence, 'changed', 1);
  await keep(coherence, 'other', 1);
  changes.push({ id: '1', scope, revision: 2, keys: ['changed'] });
  await eventually(async () => expect(keysOf(coherence)).toEqual(['other']));
});

test('a node that missed changes which are no longer kept starts with empty caches', async () => {
  const feed = { reset: false };
  const coherence = await startNode(async () => ({ ...nothingNew, reset: feed.reset }));
  await keep(coherence, 'k', 1);
  feed.reset = true;
  await eventually(async () => expect(keysOf(coherence)).toEqual([]));
});

test('a load that is ahead of the feed drops the older entries of its scope, so that nobody goes back in time', async () => {
  const coherence = await startNode(async () => nothingNew);
  await keep(coherence, 'earlier', 1);
  await keep(coherence, 'as early', 1);
  expect(keysOf(coherence)).toEqual(['as early', 'earlier']);
  await keep(coherence, 'ahead', 2);
  expect(keysOf(coherence)).toEqual(['ahead']);
});
