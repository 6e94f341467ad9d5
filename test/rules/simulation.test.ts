/**
 * The simulation of a visible write (`npm run simulate`): that it can be trusted as far as
 * docs/scaling.md trusts it.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { readFileSync } from 'node:fs';
import { EventQueue, Host, Process, sample, seeded } from '../bench/simulation/events.ts';
import { simulateCut } from '../bench/simulation/cut-region.ts';
import { benchLayout } from '../bench/simulation/layouts.ts';
import { pointsOf } from '../bench/simulation/points.ts';
import { recordedCosts, recordedPoints } from '../bench/simulation/recorded.ts';
import { simulate, type Layout } from '../bench/simulation/visible-write.ts';

const scaling = readFileSync(new URL('../../docs/scaling.md', import.meta.url), 'utf8');

describe('the clockwork', () => {
  test('events come in the order of their times, and those of one time in the order of their planning', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 20 })), (times) => {
        const queue = new EventQueue();
        const come: [number, number][] = [];
        for (const [index, time] of times.entries())
          queue.at(time, () => come.push([queue.now, index]));
        queue.run();
        const planned = times.map((time, index): [number, number] => [time, index]);
        expect(come).toEqual(planned.toSorted(([a, i], [b, j]) => a - b || i - j));
      }),
    );
  });

  test('nothing happens before what causes it', () => {
    const queue = new EventQueue();
    queue.at(5, () => queue.at(4, () => {}));
    expect(() => queue.run()).toThrow('after it');
    expect(() => queue.at(NaN, () => {})).toThrow();
  });

  test('a process does one thing after the other, and a host as many at once as it has cores', () => {
    const queue = new EventQueue();
    const host = new Host(queue, 2);
    const ends: string[] = [];
    for (const name of ['a', 'b', 'c']) {
      const process = new Process(host);
      for (const turn of [1, 2]) process.do(10, () => ends.push(`${name}${turn} ${queue.now}`));
    }
    queue.run();
    expect(ends).toEqual(['a1 10', 'b1 10', 'c1 20', 'a2 20', 'b2 30', 'c2 30']);
  });

  test('quantiles give back what they were made of', () => {
    const random = seeded(7);
    const drawn = Array.from({ length: 10_000 }, () => sample([1, 2, 9], random));
    const share = drawn.filter((each) => each <= 2).length / drawn.length;
    expect(share).toBeCloseTo(0.5, 1);
    expect(Math.min(...drawn)).toBeGreaterThanOrEqual(1);
    expect(Math.max(...drawn)).toBeLessThanOrEqual(9);
  });
});

const across: Layout = {
  regions: [
    { nodes: 30, oneWayMs: 0, jitterMs: 0 },
    { nodes: 20, oneWayMs: 40, jitterMs: 2 },
    { nodes: 15, oneWayMs: 10, jitterMs: 1 },
  ],
  where: { busServers: 3, feedNodes: 10, databaseCores: 8 },
};

describe.each([
  ['on one host', benchLayout(30)],
  ['in three regions', across],
  ['in three regions, gathered', { ...across, gathered: 8 }],
] as const)('writes %s', (_where, layout) => {
  const nodes = layout.regions.reduce((sum, region) => sum + region.nodes, 0);

  test('are the same each time, and others by another seed', () => {
    const run = (seed: number) => simulate(layout, recordedCosts, { writes: 50, seed }).ms;
    expect(run(3)).toEqual(run(3));
    expect(run(4)).not.toEqual(run(3));
  });

  test('reach each node once, are acknowledged by each once, and answered after the last of them', () => {
    const received: string[] = [];
    const acknowledged = new Map<number, number[]>();
    const seen: { write: number; last: number; answered: number; committed: number }[] = [];
    const first = new Map<number, number>();
    simulate(layout, recordedCosts, {
      writes: 50,
      seed: 5,
      observer: {
        onReceived(write, node, at) {
          received.push(`${write} ${node}`);
          if (!first.has(write)) first.set(write, at);
        },
        onAcknowledged(write, _node, at) {
          acknowledged.set(write, [...(acknowledged.get(write) ?? []), at]);
        },
        onWrite(write, { committed, answered }) {
          const last = Math.max(...acknowledged.get(write)!);
          seen.push({ write, last, answered, committed });
        },
      },
    });
    expect(received.length).toBe(50 * nodes);
    expect(new Set(received).size).toBe(50 * nodes);
    expect(seen.length).toBe(50);
    for (const { write, last, answered, committed } of seen) {
      expect(acknowledged.get(write)!.length).toBe(nodes);
      expect(first.get(write)!).toBeGreaterThan(committed);
      expect(answered).toBeGreaterThan(last);
    }
  });
});

test('a write waits for the way to the farthest region and back', () => {
  const { ms } = simulate(across, recordedCosts, { writes: 50, seed: 5 });
  expect(Math.min(...ms)).toBeGreaterThan(80);
  const near = { ...across, regions: across.regions.map((each) => ({ ...each, oneWayMs: 0 })) };
  expect(simulate(near, recordedCosts, { writes: 50, seed: 5 }).p50).toBeLessThan(80);
});

test('a write is as late as its steps are', () => {
  const { commit, publish } = recordedCosts;
  const late = {
    ...recordedCosts,
    commit: { ...commit, late: [50, 50] },
    publish: { ...publish, late: [70, 70] },
  };
  const { ms } = simulate(benchLayout(3), late, { writes: 50, seed: 5 });
  expect(Math.min(...ms)).toBeGreaterThan(120);
});

test('where heartbeats alone are more than the cores can do, there is no time', () => {
  const huge: Layout = {
    regions: [{ nodes: 1_000_000, oneWayMs: 0, jitterMs: 0 }],
    where: { busServers: 3, feedNodes: 10, databaseCores: 8 },
  };
  const found = simulate(huge, recordedCosts, { writes: 1, seed: 1 });
  expect(found.saturated).toBeDefined();
  expect(found.ms).toEqual([]);
});

describe('a region that is cut off', () => {
  test.each([1, 2, 3, 4, 5])(
    'delays no write by more than T, and none for long (seed %i)',
    (seed) => {
      const fenceMs = 2000;
      const { writes, normalFrom } = simulateCut({ holders: 50, fenceMs, oneWayMs: 40, seed });
      expect(Math.max(...writes.map(({ ms }) => ms))).toBeLessThanOrEqual(fenceMs);
      // A lease is seen at the latest at the next look at the table, a quarter of T after it was
      // renewed.
      expect(normalFrom).toBeLessThanOrEqual(1.25 * fenceMs + 200);
      expect(writes.some(({ ms }) => ms > fenceMs / 2)).toBe(true);
      expect(writes.some(({ began, ms }) => began > normalFrom && ms === 0)).toBe(true);
    },
  );

  test.each([1, 2, 3, 4, 5])(
    'serves nothing from memory once a write is answered (seed %i)',
    (seed) => {
      const { writes, servedUntil } = simulateCut({
        holders: 50,
        fenceMs: 2000,
        oneWayMs: 40,
        seed,
      });
      const firstAnswer = Math.min(...writes.map(({ began, ms }) => began + ms));
      expect(servedUntil).toBeLessThanOrEqual(firstAnswer);
    },
  );
});

describe('what was measured', () => {
  test.each(recordedPoints)('$nodes lease holders: within a quarter, p50 and p99', (point) => {
    const found = simulate(benchLayout(point.nodes), recordedCosts, { writes: 1000, seed: 1 });
    expect(Math.abs(found.p50 / point.p50 - 1)).toBeLessThan(0.25);
    expect(Math.abs(found.p99 / point.p99 - 1)).toBeLessThan(0.25);
  });

  test.each(recordedPoints)(
    '$nodes lease holders: in the document as recorded',
    ({ nodes, p50, p99 }) => {
      const row = scaling.split('\n').find((line) => line.startsWith(`| ${nodes} `)) ?? '';
      const cells = row.split('|').map((cell) => cell.trim());
      expect(cells).toContain(`${p50.toFixed(2)} ms`);
      expect(cells).toContain(`${p99.toFixed(2)} ms`);
    },
  );

  test('points are read from a report of the bench', () => {
    const what =
      '30 lease holders (3 processes of 10), p50 and p99: the write / its commit / the bare fan-out';
    expect(
      pointsOf([
        { what, result: '4.20, 9.10 / 1.00, 2.00 / 3.00, 4.00 ms' },
        { what: 'an idle gateway', result: '14.0 ms' },
      ]),
    ).toEqual([{ nodes: 30, p50: 4.2, p99: 9.1 }]);
  });
});
