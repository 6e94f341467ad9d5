/** What a node does while nobody asks it anything. */
import { afterEach, expect, jest, test } from '@jest/globals';
import os from 'node:os';
import perfHooks from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { getHeapSpaceStatistics } from 'node:v8';
import { createNode } from '../../shared/node/broker.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/cluster.ts';

const settings = liveSettings(loadSettings({ LOG_LEVEL: 'silent' }, { pieces: [] }), {}, []);

afterEach(() => {
  jest.restoreAllMocks();
});

test('a heartbeat does not look at the processors', async () => {
  const looks = jest.spyOn(os, 'cpus');
  const { broker } = createNode({ settings });
  await broker.registry.nodes.localNode!.updateLocalInfo(broker.getCpuUsage);
  expect(looks).not.toHaveBeenCalled();
});

test('the event loop is not woken to see how late it is', () => {
  const watching = jest.spyOn(perfHooks, 'monitorEventLoopDelay');
  createNode({ settings });
  expect(watching).toHaveBeenCalled();
  const anHour = 60 * 60 * 1000;
  for (const [options] of watching.mock.calls)
    expect(options?.samplePerIteration || options!.resolution! > anHour).toBe(true);
});

test('what the longest turn of the event loop took is shown, since it was last asked for', async () => {
  const { metrics } = createNode({ settings });
  const longest = async (): Promise<number> => {
    const text = await metrics.getSingleMetricAsString('nodejs_eventloop_lag_max_seconds');
    return Number(/^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(text)?.[1]);
  };
  const blockedMs = 300;
  await delay(1);
  const until = performance.now() + blockedMs;
  while (performance.now() < until);
  await delay(1);
  expect(await longest()).toBeGreaterThan((blockedMs - 10) / 1000);
  await eventually(async () => {
    await metrics.metrics();
    await delay(10);
    expect(await longest()).toBeLessThan(blockedMs / 2000);
  });
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
