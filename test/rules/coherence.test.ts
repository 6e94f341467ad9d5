/**
 * When one node may serve from memory: its lease on the change feed, and what the feed and its own
 * loads tell it.
 */
import { afterEach, expect, jest, test } from '@jest/globals';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import pino from 'pino';
import type { Change } from '../../shared/commits/commit.ts';
import { Coherence, untilNextPoll, type ClusterLink } from '../../shared/coherence/coherence.ts';
import type { PollResult } from '../../shared/coherence/feed.ts';
import { settingsReplacedKey, wholeScopeKey } from '../../shared/contracts/feed.ts';
import { StrataError } from '../../shared/errors.ts';
import { synchronizeClock, synchronizedNow } from '../../shared/process/synchronized-clock.ts';
import { eventually } from '../support/eventually.ts';

const fenceMs = 2000;
const staleIdentityMs = 60_000;
const scope = 'tenant:x';
const nothingNew: PollResult = { cursor: '1', complete: true, changes: [], server: 'one' };
const started: Coherence[] = [];
afterEach(async () => {
  for (const coherence of started.splice(0)) await coherence.stop();
});

/** A node whose feed answers as `poll` says; its first poll is over. */
async function startNode(
  poll: () => Promise<PollResult>,
  link: Partial<ClusterLink> = {},
): Promise<Coherence> {
  const coherence = new Coherence({
    nodeId: 'node',
    fenceMs,
    requestTimeoutMs: 1000,
    ttlMinutes: () => 5,
    staleIdentityMs: () => staleIdentityMs,
    log: pino({ level: 'silent' }),
  });
  started.push(coherence);
  await coherence.start({
    poll,
    leave: async () => {},
    broadcast: () => {},
    hearsOthers: async () => true,
    ...link,
  });
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
  const polled = { at: 0, count: 0 };
  const coherence = await startNode(async () => {
    polled.count += 1;
    if (polled.count > 1) throw new Error('away');
    polled.at = performance.now();
    await delay(400);
    return nothingNew;
  });
  expect(coherence.hasLease()).toBe(true);
  let lastSeen = 0;
  for (let now = performance.now(); coherence.hasLease(now); now = performance.now()) {
    lastSeen = now;
    await delay(5);
  }
  expect(lastSeen).toBeLessThan(polled.at + fenceMs);
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

test("the time is the database's once a poll has brought it, and no worse for a slow one", async () => {
  const hour = 3_600_000;
  const aheadMs = (): number => synchronizedNow() - Date.now();
  expect(aheadMs()).toBe(0);
  await startNode(async () => ({ ...nothingNew, at: Date.now() + hour }));
  expect(Math.abs(aheadMs() - hour)).toBeLessThan(1000);
  const now = Date.now();
  synchronizeClock(now + hour, now - hour, now);
  expect(Math.abs(aheadMs() - hour)).toBeLessThan(1000);
  // The database counts microseconds; calendars take whole milliseconds alone.
  synchronizeClock(now + hour + 0.873, now, now);
  expect(Number.isInteger(synchronizedNow())).toBe(true);

  // The database's clock jumps, and a minute later has not gone back.
  synchronizeClock(now, now, now);
  expect(Math.abs(aheadMs() - hour)).toBeLessThan(1000);
  const monotonic = performance.now();
  const clock = jest.spyOn(performance, 'now').mockImplementation(() => monotonic + 61_000);
  synchronizeClock(now + 61_000, now + 61_000, now + 61_000);
  clock.mockRestore();
  expect(Math.abs(aheadMs())).toBeLessThan(1000);
  // This node's own clock is set.
  synchronizeClock(now, now - hour, now - hour);
  expect(Math.abs(aheadMs() - hour)).toBeLessThan(1000);
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
  const feed = { complete: true };
  const coherence = await startNode(async () => ({ ...nothingNew, complete: feed.complete }));
  await keep(coherence, 'k', 1);
  feed.complete = false;
  await eventually(async () => expect(keysOf(coherence)).toEqual([]));
});

test('a load that is ahead of the feed drops the older entries of its scope, so that no one goes back in time', async () => {
  const coherence = await startNode(async () => nothingNew);
  await keep(coherence, 'earlier', 1);
  await keep(coherence, 'as early', 1);
  expect(keysOf(coherence)).toEqual(['as early', 'earlier']);
  await keep(coherence, 'ahead', 2);
  expect(keysOf(coherence)).toEqual(['ahead']);
});

/** Keeps a value, and makes known that a revision of it is committed which no answer brings. */
async function keepBelowFloor(coherence: Coherence): Promise<void> {
  await keep(coherence, 'k', 1);
  coherence.apply({ id: '9', scope, revision: 9, keys: ['k'] });
  await expect(keep(coherence, 'k', 1)).rejects.toMatchObject({ type: 'service_unavailable' });
}

test('where another server answers, what was known of revisions counts no more', async () => {
  const feed = { server: 'one' };
  const coherence = await startNode(async () => ({ ...nothingNew, server: feed.server }));
  await keep(coherence, 'other', 1);
  await keepBelowFloor(coherence);
  feed.server = 'two';
  await eventually(async () => expect(coherence.counters.resets).toBe(1));
  expect(keysOf(coherence)).toEqual([]);
  await keep(coherence, 'k', 1);
  expect(keysOf(coherence)).toEqual(['k']);
});

test('a poll whose answer was lost is no reason to begin again', async () => {
  const feed = { lost: false };
  const coherence = await startNode(async () => {
    if (feed.lost) throw new Error('lost');
    return nothingNew;
  });
  feed.lost = true;
  await eventually(async () => expect(coherence.counters.pollFailures).toBeGreaterThanOrEqual(2));
  feed.lost = false;
  const { polls } = coherence.counters;
  await eventually(async () => expect(coherence.counters.polls).toBeGreaterThan(polls));
  expect(coherence.counters.resets).toBe(0);
});

test('a node that does not hear the bus gives its lease back, and has none until it hears again', async () => {
  const bus = { hears: true, left: 0 };
  const coherence = await startNode(async () => nothingNew, {
    hearsOthers: async () => bus.hears,
    leave: async () => {
      bus.left += 1;
    },
  });
  await keep(coherence, 'k', 1);
  expect(serves(coherence, 'k')).toBe(true);
  bus.hears = false;
  await eventually(async () => expect(coherence.hasLease()).toBe(false));
  const { polls } = coherence.counters;
  await delay(fenceMs / 2);
  expect(coherence.counters.polls).toBe(polls);
  expect(bus.left).toBe(1);
  bus.hears = true;
  await eventually(async () => expect(serves(coherence, 'k')).toBe(true));
});

test('a node that polls over the bus asks for a round trip only while it has no lease, and then before it polls', async () => {
  const bus = { answers: true, polled: 0 };
  const node: { coherence?: Coherence } = {};
  const hadLease: boolean[] = [];
  node.coherence = await startNode(
    async () => {
      bus.polled += 1;
      if (!bus.answers) throw new Error('away');
      return nothingNew;
    },
    {
      pollsOverBus: true,
      hearsOthers: async () => {
        hadLease.push(node.coherence?.hasLease() ?? false);
        return bus.answers;
      },
    },
  );
  const { coherence } = node;
  await eventually(async () => expect(coherence.counters.polls).toBeGreaterThan(3));
  bus.answers = false;
  await eventually(async () => expect(coherence.hasLease()).toBe(false));
  const asked = hadLease.length;
  await eventually(async () => expect(hadLease.length).toBeGreaterThan(asked));
  const { polled } = bus;
  await eventually(async () => expect(hadLease.length).toBeGreaterThan(asked + 2));
  expect(bus.polled).toBe(polled);
  expect(hadLease).not.toContain(true);
  bus.answers = true;
  await eventually(async () => expect(coherence.hasLease()).toBe(true));
});

test('a lease does not outlast a sleep of the machine, in which its monotonic clock stands', async () => {
  const feed = { away: false };
  const coherence = await startNode(async () => {
    if (feed.away) throw new Error('away');
    return nothingNew;
  });
  feed.away = true;
  expect(coherence.hasLease()).toBe(true);
  const wallClock = jest.spyOn(Date, 'now').mockReturnValue(Date.now() + 60_000);
  expect(coherence.hasLease()).toBe(false);
  feed.away = false;
  await eventually(async () => expect(coherence.hasLease()).toBe(true));
  wallClock.mockRestore();
});

test('identity is the fallback for its owner no longer than it may after the last good poll, by whichever clock says more', async () => {
  const feed = { away: false };
  const coherence = await startNode(async () => {
    if (feed.away) throw new Error('away');
    return nothingNew;
  });
  const { identity, configuration_service: stored } = coherence.caches;
  const answer = async () => ({ value: 'known', asOf: { auth: 1 } });
  await identity.read('session', ['auth'], answer);
  await stored.read('document', ['auth'], answer);
  feed.away = true;
  const away = async (): Promise<never> => {
    throw new StrataError('service_unavailable');
  };
  const readSession = () => identity.read('session', ['auth'], away);
  const readDocument = () => stored.read('document', ['auth'], away);
  const known = { value: 'known', stale: true };
  const refused = { type: 'service_unavailable' };
  const clocks = [
    jest.spyOn(Date, 'now').mockReturnValue(Date.now()),
    jest.spyOn(performance, 'now').mockReturnValue(performance.now()),
  ];
  for (const clock of clocks) {
    const before = clock.getMockImplementation()!();
    clock.mockReturnValue(before + staleIdentityMs - fenceMs);
    await expect(readSession()).resolves.toMatchObject(known);
    clock.mockReturnValue(before + staleIdentityMs + 1);
    await expect(readSession()).rejects.toMatchObject(refused);
    await expect(readDocument()).resolves.toMatchObject(known);
    clock.mockReturnValue(before);
  }
  for (const clock of clocks) clock.mockRestore();
  feed.away = false;
  await eventually(async () => expect(coherence.hasLease()).toBe(true));
  await expect(identity.read('session', ['auth'], answer)).resolves.toMatchObject({ hit: true });
});

test('what is said of a whole scope, as when its tenant is erased, leaves nothing of it in memory, and all of others', async () => {
  const coherence = await startNode(async () => nothingNew);
  const { identity } = coherence.caches;
  await keep(coherence, 'risk', 1);
  await identity.read('member', [scope], async () => ({ value: 'viewer', asOf: { [scope]: 1 } }));
  await identity.read('other', ['tenant:y'], async () => ({ value: 'viewer', asOf: {} }));
  expect([keysOf(coherence), identity.keys().toSorted()]).toEqual([['risk'], ['member', 'other']]);
  coherence.apply({ id: '7', scope, revision: 2, keys: [wholeScopeKey] });
  expect([keysOf(coherence), identity.keys()]).toEqual([[], ['other']]);
});

test('settings that were replaced leave no effective values behind, which hold defaults of before', async () => {
  const coherence = await startNode(async () => nothingNew);
  const { dynamic_config_service: effective } = coherence.caches;
  const load = async () => ({ value: { limit: 1 }, asOf: { [scope]: 1 } });
  await effective.read('effective', [scope], load);
  expect(effective.get('effective')).toBeDefined();
  coherence.apply({ id: '7', scope: 'auth', revision: 1, keys: [settingsReplacedKey] });
  expect(effective.get('effective')).toBeUndefined();
});

test.each([
  ['just after the last', 10_001, 499],
  ['at the last', 10_000, 500],
  ['in between', 10_200, 300],
  ['at the latest that the next is waited for', 10_250, 250],
  ['too soon before the next', 10_499, 250],
])('nodes poll when their clocks pass the same moments: %s', (_when, now, waited) => {
  expect(untilNextPoll(now, 500)).toBe(waited);
});

test('a node polls each quarter of the fence time, or sooner, whatever its clock says', () => {
  for (let now = 0; now < 3000; now += 7) {
    expect(untilNextPoll(now, 500)).toBeLessThanOrEqual(500);
    expect(untilNextPoll(now, 500)).toBeGreaterThanOrEqual(250);
  }
});
