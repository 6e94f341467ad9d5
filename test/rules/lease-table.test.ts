/** Which leases of the table may still be good, by this process's own clock alone. */
import { expect, test } from '@jest/globals';
import type { Lease } from '../../shared/coherence/feed.ts';
import { LeaseTable } from '../../shared/coherence/lease-table.ts';

const lease = (holder: string, token: string, fenceMs = 2000): Lease => ({
  holder,
  token,
  fenceMs,
  hasRead: false,
});
const holders = (leases: readonly Lease[]): string[] => leases.map(({ holder }) => holder);

test('a lease is good until a read that begins T after its token was first seen still shows that token', () => {
  const table = new LeaseTable();
  expect(holders(table.observe([lease('a', '1')], 1000, 1010))).toEqual(['a']);
  expect(holders(table.observe([lease('a', '1')], 3009, 9000))).toEqual(['a']);
  expect(holders(table.observe([lease('a', '1')], 3010, 3020))).toEqual([]);
  expect(holders(table.observe([lease('a', '2')], 3030, 3040))).toEqual(['a']);
  expect(holders(table.observe([lease('a', '2')], 5039, 5040))).toEqual(['a']);
});

test('an older token, as of a database that went back, counts as a new one', () => {
  const table = new LeaseTable();
  table.observe([lease('a', '1')], 0, 0);
  table.observe([lease('a', '2')], 1500, 1500);
  expect(holders(table.observe([lease('a', '1')], 4000, 4000))).toEqual(['a']);
});

test('each lease lasts for the T of its own holder', () => {
  const table = new LeaseTable();
  const leases = [lease('short', '1', 500), lease('long', '1', 8000)];
  table.observe(leases, 0, 0);
  expect(table.longestFenceMs()).toBe(8000);
  expect(holders(table.observe(leases, 500, 500))).toEqual(['long']);
  expect(holders(table.observe(leases, 8000, 8000))).toEqual([]);
});

test('only leases that ended long ago are given to whoever removes them', () => {
  const table = new LeaseTable();
  table.observe([lease('a', '1'), lease('b', '1')], 0, 0);
  table.observe([lease('a', '1'), lease('b', '2')], 600_000, 600_000);
  expect(table.forgotten(900_000)).toEqual([]);
  expect(table.forgotten(900_001)).toEqual([{ holder: 'a', token: '1' }]);
});
