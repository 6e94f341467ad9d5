/** The order of the console's tables, as their addresses have it. */
import { expect, test } from '@jest/globals';
import { directionOf, nextOrder, sortedBy, type Orders } from '../../console/sorting.ts';

interface Row {
  readonly name: string;
  readonly cost: number | null;
}
const rows: readonly Row[] = [
  { name: 'svc-10', cost: 9 },
  { name: 'Svc-2', cost: null },
  { name: 'api', cost: 10 },
];
const orders: Orders<Row> = { name: ({ name }) => name, cost: ({ cost }) => cost };
const namesIn = (asked: string): string[] => sortedBy(rows, orders, asked).map(({ name }) => name);

test.each([
  ['', ['svc-10', 'Svc-2', 'api']],
  ['name', ['api', 'Svc-2', 'svc-10']],
  ['-name', ['svc-10', 'Svc-2', 'api']],
  ['cost', ['svc-10', 'api', 'Svc-2']],
  // What has no value is not the dearest either.
  ['-cost', ['api', 'svc-10', 'Svc-2']],
  // Whatever an address says.
  ['owner', ['svc-10', 'Svc-2', 'api']],
  ['constructor', ['svc-10', 'Svc-2', 'api']],
])('asked for %j', (asked, expected) => {
  expect(namesIn(asked)).toEqual(expected);
});

test('a column is ascending, then descending, then not ordered by', () => {
  const asked = ['', 'name', '-name'];
  expect(asked.map((each) => nextOrder('name', each))).toEqual(['name', '-name', '']);
  expect(nextOrder('cost', '-name')).toBe('cost');
  expect(asked.map((each) => directionOf('name', each))).toEqual([
    'none',
    'ascending',
    'descending',
  ]);
});
