/** How the parts of a node are asked for their health: seldom, once at a time, and not for long. */
import { afterEach, expect, jest, test } from '@jest/globals';
import { boundedProbe } from '../../shared/node/health.ts';

/** By the clock of the test, which stands still unless it is turned. */
function stoppedClock(): { turn: (ms: number) => void } {
  const clock = jest.spyOn(performance, 'now').mockReturnValue(1_000_000);
  return {
    turn(ms) {
      clock.mockReturnValue(performance.now() + ms);
    },
  };
}
afterEach(() => {
  jest.restoreAllMocks();
});

/** A part that answers what it is told to, and counts how often it was asked. */
function part(answer: () => Promise<boolean>) {
  const counted = { asked: 0 };
  const probe = boundedProbe(async () => {
    counted.asked += 1;
    return answer();
  });
  const ask = (times: number): Promise<boolean[]> =>
    Promise.all(Array.from({ length: times }, probe));
  return { counted, ask };
}

test('however many ask, the part is asked once in a second', async () => {
  const clock = stoppedClock();
  const { counted, ask } = part(async () => true);
  expect(new Set(await ask(100))).toEqual(new Set([true]));
  await ask(100);
  expect(counted.asked).toBe(1);
  clock.turn(1001);
  await ask(100);
  expect(counted.asked).toBe(2);
});

test('a part that is away is asked again sooner, and no more often', async () => {
  const clock = stoppedClock();
  let isThere = false;
  const { counted, ask } = part(async () => isThere);
  expect(new Set(await ask(100))).toEqual(new Set([false]));
  isThere = true;
  expect(await ask(1)).toEqual([false]);
  expect(counted.asked).toBe(1);
  clock.turn(251);
  expect(await ask(1)).toEqual([true]);
});

test('a part that does not answer keeps no one waiting, and is not asked twice', async () => {
  const silent = Promise.withResolvers<boolean>();
  const { counted, ask } = part(() => silent.promise);
  const began = performance.now();
  expect(await ask(1)).toEqual([false]);
  expect(await ask(1)).toEqual([false]);
  expect(performance.now() - began).toBeLessThan(20_000);
  expect(counted.asked).toBe(1);
  silent.resolve(true);
  expect(await ask(1)).toEqual([true]);
});
