/** Who is committed with whom: the batches of what waits for one scope. */
import { expect, test } from '@jest/globals';
import { BatchQueue } from '../../shared/concurrency/batch-queue.ts';

/** BatchQueue that end when the test says so. */
function startQueue(most: number) {
  const taken: { readonly name: string; readonly entries: readonly number[] }[] = [];
  const ends: ((left?: readonly number[]) => void)[] = [];
  const queue = new BatchQueue<number>(most, (name, entries) => {
    taken.push({ name, entries });
    const { promise, resolve } = Promise.withResolvers<readonly number[]>();
    ends.push((left = []) => resolve(left));
    return promise;
  });
  return {
    add: (name: string, ...entries: number[]) => entries.forEach((entry) => queue.add(name, entry)),
    /** Ends the turn that was taken first of those that have not ended. */
    async end(left?: readonly number[]) {
      ends.shift()!(left);
      await new Promise(setImmediate);
    },
    taken: () => taken.map(({ name, entries }) => `${name} ${entries.join(',')}`),
  };
}

test('what comes first does not wait; what comes meanwhile is one turn, in its order', async () => {
  const { add, end, taken } = startQueue(8);
  add('x', 1, 2, 3);
  add('x', 4);
  expect(taken()).toEqual(['x 1']);
  await end();
  expect(taken()).toEqual(['x 1', 'x 2,3,4']);
  await end();
  add('x', 5);
  expect(taken()).toEqual(['x 1', 'x 2,3,4', 'x 5']);
});

test('a turn takes no more than it may', async () => {
  const { add, end, taken } = startQueue(3);
  add('x', 1, 2, 3, 4, 5, 6, 7, 8);
  for (let turn = 1; turn <= 3; turn += 1) await end();
  expect(taken()).toEqual(['x 1', 'x 2,3,4', 'x 5,6,7', 'x 8']);
});

test('what a turn leaves comes before what came after it', async () => {
  const { add, end, taken } = startQueue(3);
  add('x', 1, 2, 3, 4, 5);
  await end();
  add('x', 6);
  await end([3, 4]);
  expect(taken()).toEqual(['x 1', 'x 2,3,4', 'x 3,4,5']);
  await end();
  expect(taken().at(-1)).toBe('x 6');
});

test('a name waits for no other', async () => {
  const { add, end, taken } = startQueue(8);
  add('x', 1, 2);
  add('y', 3, 4);
  expect(taken()).toEqual(['x 1', 'y 3']);
  await end();
  expect(taken()).toEqual(['x 1', 'y 3', 'x 2']);
  await end();
  expect(taken()).toEqual(['x 1', 'y 3', 'x 2', 'y 4']);
});
