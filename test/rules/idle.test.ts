/** What a node does while nobody asks it anything. */
import { afterEach, expect, jest, test } from '@jest/globals';
import os from 'node:os';
import perfHooks from 'node:perf_hooks';
import { getHeapSpaceStatistics } from 'node:v8';
import { createNode } from '../../shared/cluster/broker.ts';
import { liveSettings } from '../../shared/live-settings.ts';
import { loadSettings } from '../../shared/settings.ts';

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

test('the event loop is woken no more than 20 times a second to see how late it is', () => {
  const watching = jest.spyOn(perfHooks, 'monitorEventLoopDelay');
  createNode({ settings });
  expect(watching).toHaveBeenCalledTimes(1);
  expect(watching.mock.calls[0]![0]?.resolution).toBeGreaterThanOrEqual(50);
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
