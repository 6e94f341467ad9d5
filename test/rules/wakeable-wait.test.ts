/**
 * The pause of a loop that may be told of work: it ends in time, when it is woken, and when it was
 * woken before it began.
 */
import { expect, test } from '@jest/globals';
import { performance } from 'node:perf_hooks';
import { WakeableWait } from '../../shared/concurrency/wakeable-wait.ts';

const longMs = 60_000;

test('no one wakes it: it ends when its time is up, and says so', async () => {
  const pause = new WakeableWait();
  const began = performance.now();
  expect(await pause.wait(30)).toBe(false);
  expect(performance.now() - began).toBeGreaterThanOrEqual(29);
});

test('a wake-up ends it early', async () => {
  const pause = new WakeableWait();
  const waiting = pause.wait(longMs);
  pause.wake();
  expect(await waiting).toBe(true);
});

test('wake-ups while no one waits end the next wait at once, and only that one', async () => {
  const pause = new WakeableWait();
  pause.wake();
  pause.wake();
  expect(await pause.wait(longMs)).toBe(true);
  expect(await pause.wait(1)).toBe(false);
});

test('a wake-up between the end of a wait and the next one is kept', async () => {
  const pause = new WakeableWait();
  const waiting = pause.wait(longMs);
  pause.wake();
  pause.wake();
  expect(await waiting).toBe(true);
  pause.wake();
  expect(await pause.wait(longMs)).toBe(true);
});
