/** Sides of rollouts: by the salt and the tenant's id alone, evenly, and never back. */
import { expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { cohortOf, hasCandidate, percentileOf } from '../../shared/rollouts/side.ts';

/** Ids as they might be. */
const ids = Array.from({ length: 10_000 }, (_, index) => {
  const hex = createHash('md5').update(String(index)).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
});
const manual = { bake_minutes: 0, gate: [] };

test('a stage has its share of the tenants, and those of the stages before', () => {
  const [listed] = ids.slice(-1) as [string];
  const stages = [
    { ...manual, tenants: [listed] },
    { ...manual, percent: 1 },
    { ...manual, percent: 10 },
    { ...manual, percent: 100 },
  ];
  const cohorts = stages.map((_stage, index) =>
    ids.filter((id) => hasCandidate(cohortOf({ stages, salt: 'a' }, index), id)),
  );
  expect(cohorts[0]).toEqual([listed]);
  expect(cohorts[1]!.length).toBeGreaterThan(60);
  expect(cohorts[1]!.length).toBeLessThan(150);
  expect(Math.abs(cohorts[2]!.length - 1000)).toBeLessThan(120);
  expect(cohorts[3]).toHaveLength(ids.length);
  for (const [index, cohort] of cohorts.slice(1).entries()) {
    const all = new Set(cohort);
    expect(cohorts[index]!.filter((id) => !all.has(id))).toEqual([]);
  }
});

test('another salt begins with other tenants', () => {
  const first = (salt: string) => ids.filter((id) => percentileOf(salt, id) < 10);
  const both = first('a').filter((id) => percentileOf('b', id) < 10);
  // A tenth of a tenth, by chance.
  expect(both.length).toBeLessThan(160);
  // Fixed: a node of another release must say the same.
  expect(percentileOf('a', '00000000-0000-4000-8000-000000000000')).toBeCloseTo(58.746, 3);
});
