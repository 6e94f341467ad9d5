/** When those who are asked to approve a change set are reminded. */
import { expect, test } from '@jest/globals';
import { reminderOf } from '../../shared/change-sets/rules.ts';

test.each([
  ['on_approval', '2026-12-01T18:00:00.000Z'],
  ['manual', '2026-12-01T18:00:00.000Z'],
  [{ at: '2026-12-01T04:00:00Z' }, '2026-12-01T03:00:00.000Z'],
  [{ at: '2026-12-01T01:00:00Z' }, '2026-12-01T00:45:00.000Z'],
  // So soon that the first mail is new enough, or gone by.
  [{ at: '2026-12-01T00:59:59Z' }, undefined],
  [{ at: '2026-11-30T00:00:00Z' }, undefined],
] as const)('of one that is applied %j', (apply, expected) => {
  const submitted = new Date('2026-12-01T00:00:00Z');
  expect(reminderOf(submitted, apply)?.toISOString()).toBe(expected);
});
