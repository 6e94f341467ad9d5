/** The checker of the fault tests can fail. */
import { expect, test } from '@jest/globals';
import {
  rightRegister,
  violations,
  type MergedRead,
  type Observed,
  type Operation,
} from '../support/history-checker.ts';

const write = (value: number, revision: number, began: number, ended: number): Operation => ({
  register: 'r',
  node: 'a',
  began,
  ended,
  value,
  revision,
  stale: false,
});
const read = (
  value: number,
  revision: number | undefined,
  began: number,
  ended: number,
  { node = 'a', stale = false } = {},
): Operation => ({ register: 'r', node, began, ended, value, revision, stale });
const merged = (label: string, shown: string, { stale = false } = {}): MergedRead => ({
  node: 'a',
  began: 0,
  ended: 1,
  label,
  shown,
  stale,
});
const evaluate = (
  writes: Operation[],
  reads: Operation[],
  more: Partial<Observed> = {},
): string[] =>
  violations({
    writes,
    reads,
    merged: [],
    torn: [],
    attempted: new Map([['r', 9]]),
    errors: new Map(),
    slowestWriteMs: 0,
    slowestReadMs: 0,
    slowestMs: 0,
    lateMs: 0,
    ...more,
  });

test('a coherent history passes', () => {
  const writes = [write(1, 10, 0, 5), write(2, 11, 6, 20)];
  expect(
    evaluate(writes, [
      read(1, 10, 5, 6),
      read(2, 11, 7, 8, { node: 'b' }),
      read(1, 10, 9, 10),
      read(2, undefined, 21, 22),
    ]),
  ).toEqual([]);
});

test.each<[string, Operation[], Operation[], RegExp]>([
  [
    'an old value after the answer',
    [write(1, 10, 0, 5), write(2, 11, 6, 8)],
    [read(1, 10, 8, 9)],
    /read revision 10 after 11 was answered/,
  ],
  [
    'the same, merged',
    [write(1, 10, 0, 5), write(2, 11, 6, 8)],
    [read(1, undefined, 8, 9)],
    /read revision 10 after 11 was answered/,
  ],
  [
    'a node that goes back',
    [write(1, 10, 0, 5)],
    [read(2, 11, 5, 6), read(1, 10, 7, 8)],
    /went back from revision 11 to 10/,
  ],
  ['a value of no one', [write(1, 10, 0, 5)], [read(99, 12, 6, 7)], /never written/],
  [
    'two values of one revision',
    [write(1, 10, 0, 5)],
    [read(2, 10, 6, 7)],
    /2 under revision 10, which is 1/,
  ],
])('%s is found', (...[, writes, reads, problem]) => {
  expect(evaluate(writes, reads)).toEqual([expect.stringMatching(problem)]);
});

test('a write without an answer may be committed late, after its successor; what is marked stale is not judged', () => {
  expect(evaluate([write(2, 11, 6, 8)], [read(2, 11, 8, 9), read(1, 12, 9, 10)])).toEqual([]);
  expect(
    evaluate([write(1, 10, 0, 5), write(2, 11, 6, 8)], [read(1, 10, 9, 10, { stale: true })]),
  ).toEqual([]);
});

test('merged answers that name the same revisions are the same, unless marked stale', () => {
  const twice = (stale: boolean): string[] =>
    evaluate([], [], {
      merged: [merged('x at 7', 'risk 1'), merged('x at 7', 'risk 2', { stale })],
    });
  expect(twice(false)).toEqual(['x at 7 on a: risk 2, which elsewhere is risk 1']);
  expect(twice(true)).toEqual([]);
});

test('a right that was used after it was taken away is found', () => {
  const register = rightRegister('key');
  const problems = evaluate(
    [{ ...write(1, 1, 5, 6), register }],
    [{ ...read(0, 0, 7, 8), register }],
    { attempted: new Map([[register, 1]]) },
  );
  expect(problems).toEqual([expect.stringMatching(/read revision 0 after 1 was answered/)]);
});

test('what the database lost may be read until all nodes have to know it; its revision is not given out again', () => {
  const wentBack = { at: 10, until: 20 };
  const writes = [write(1, 1, 0, 1), write(2, 2, 2, 3)];
  const late = write(3, 4, 21, 22);
  expect(
    evaluate([...writes, late], [read(2, 2, 15, 16), read(3, 4, 23, 24)], { wentBack }),
  ).toEqual([]);
  expect(evaluate([...writes, late], [read(2, 2, 23, 24)], { wentBack })).toEqual([
    expect.stringMatching(/read revision 2 after 4 was answered/),
  ]);
  expect(evaluate([...writes, write(3, 2, 21, 22)], [read(3, 2, 23, 24)], { wentBack })).toEqual([
    expect.stringMatching(/3 under revision 2, which is 2/),
  ]);
});
