/** Figures that are read when Prometheus asks. */
import { expect, test } from '@jest/globals';
import { Registry } from 'prom-client';
import { askedOfDatabase, addMetric } from '../../shared/telemetry/metric.ts';

const shownBy = async (registry: Registry): Promise<string[]> =>
  (await registry.metrics()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));

test('a figure says what it is now, not the sum of what it was', async () => {
  const registry = new Registry();
  let value = 3;
  addMetric(registry, { name: 'reads_total', help: 'Reads', read: () => value });
  expect(await shownBy(registry)).toEqual(['reads_total 3']);
  value = 5;
  expect(await shownBy(registry)).toEqual(['reads_total 5']);
});

test.each([undefined, Infinity, NaN])(
  'what is unknown, such as %s, is neither 0 nor what it was before',
  async (unknown) => {
    const registry = new Registry();
    let value: number | undefined = 7;
    addMetric(registry, { name: 'waiting', help: 'Waiting', read: () => value });
    expect(await shownBy(registry)).toEqual(['waiting 7']);
    value = unknown;
    expect(await shownBy(registry)).toEqual([]);
  },
);

test('a series that is gone is not shown any more', async () => {
  const registry = new Registry();
  let parts = ['bus', 'redis'];
  addMetric(registry, {
    name: 'up',
    help: 'Up',
    labelNames: ['part'],
    read: () => parts.map((part) => ({ labels: { part }, value: 0 })),
  });
  expect(await shownBy(registry)).toEqual(['up{part="bus"} 0', 'up{part="redis"} 0']);
  parts = ['redis'];
  expect(await shownBy(registry)).toEqual(['up{part="redis"} 0']);
});

test('a database that stalls is asked once, and waited for less than a second', async () => {
  let asked = 0;
  const { promise, resolve } = Promise.withResolvers<number>();
  const ask = askedOfDatabase(() => {
    asked += 1;
    return promise;
  });
  const began = performance.now();
  expect(await Promise.all([ask(), ask()])).toEqual([undefined, undefined]);
  expect(await ask()).toBeUndefined();
  expect(performance.now() - began).toBeLessThan(20_000);
  expect(asked).toBe(1);
  resolve(4);
  expect(await ask()).toBe(4);
});

test('a database that refuses says nothing', async () => {
  expect(await askedOfDatabase(() => Promise.reject(new Error('away')))()).toBeUndefined();
});
