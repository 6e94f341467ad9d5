/** What a node does while nobody asks it anything. */
import { afterEach, expect, jest, test } from '@jest/globals';
import os from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { getHeapSpaceStatistics } from 'node:v8';
import { createNode } from '../../shared/node/broker.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/eventually.ts';

const settings = liveSettings(loadSettings({ LOG_LEVEL: 'silent' }, { roles: [] }), {}, []);

afterEach(() => {
  jest.restoreAllMocks();
});

test('a heartbeat does not look at the processors', async () => {
  const looks = jest.spyOn(os, 'cpus');
  const { broker } = createNode({ settings });
  await broker.registry.nodes.localNode!.updateLocalInfo(broker.getCpuUsage);
  expect(looks).not.toHaveBeenCalled();
});

test('what the longest turn of the event loop took is shown, since it was last asked for', async () => {
  const { metrics } = createNode({ settings });
  const longest = async (): Promise<number> => {
    const text = await metrics.metrics();
    return Number(/^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(text)?.[1]);
  };
  const blockedMs = 300;
  // The histogram begins with its first tick, which a busy machine brings late.
  await eventually(async () => {
    await delay(50);
    const until = performance.now() + blockedMs;
    while (performance.now() < until);
    await delay(50);
    expect(await longest()).toBeGreaterThan((blockedMs - 10) / 1000);
  });
  await eventually(async () => expect(await longest()).toBeLessThan(blockedMs / 2000));
});

/** Where V8 keeps what has room for many thousand entries, in bytes. */
const largeObjects = (): number =>
  getHeapSpaceStatistics()
    .filter(({ space_name: name }) => name.endsWith('large_object_space'))
    .reduce((sum, { space_used_size: used }) => sum + used, 0);

test('memories are empty when they are made: a node takes no room for entries that it may never have', () => {
  const before = largeObjects();
  const { coherence } = createNode({ settings });
  expect(largeObjects() - before).toBeLessThan(1024 * 1024);
  expect(coherence.hasLease()).toBe(false);
});
