/** What the overview counts, from lists of the API. */
import { describe, expect, test } from '@jest/globals';
import type { Usage } from '../../console/screens/budget-usage.ts';
import {
  authorsSince,
  datesUntil,
  countsByDay,
  isNearItsEnd,
  medianMinutes,
  shareUsed,
} from '../../console/screens/overview-counts.ts';

/** By the clock of whoever reads, whichever zone the tests run in. */
const local = (day: number, hour: number): string => new Date(2026, 2, day, hour).toISOString();

describe('by day', () => {
  const dates = datesUntil(new Date(2026, 2, 2, 23), 3);

  test('the days are those of whoever reads, over the end of a month too', () => {
    expect(dates).toEqual(['2026-02-28', '2026-03-01', '2026-03-02']);
    expect(datesUntil(new Date(2026, 2, 30, 0), 3)).toEqual([
      '2026-03-28',
      '2026-03-29',
      '2026-03-30',
    ]);
  });

  test('what was asked for counts on its day, what it cost on the day of its start', () => {
    const asked = { created_at: local(1, 23), started_at: null };
    const measured = countsByDay(
      [
        { ...asked, decision: 'allow', started_at: local(2, 0), cost_impact: 5 },
        { ...asked, decision: 'allow', started_at: local(1, 23), cost_impact: 5, actual_cost: 3 },
        { ...asked, decision: 'approval_required', cost_impact: 9 },
        { ...asked, decision: 'deny', cost_impact: 100 },
        { created_at: local(-10, 0), started_at: local(-10, 0), decision: 'allow', cost_impact: 7 },
      ],
      dates,
    );
    expect(measured).toEqual([
      { date: '2026-02-28', allow: 0, approval_required: 0, deny: 0, cost: 0 },
      { date: '2026-03-01', allow: 2, approval_required: 1, deny: 1, cost: 3 },
      { date: '2026-03-02', allow: 0, approval_required: 0, deny: 0, cost: 5 },
    ]);
  });
});

test('the median is of what people decided', () => {
  const decided = (minutes: number) => ({
    created_at: '2026-01-01T00:00:00Z',
    decision: { at: new Date(Date.UTC(2026, 0, 1, 0, minutes)).toISOString() },
  });
  const open = { created_at: '2026-01-01T00:00:00Z', decision: null };
  expect(medianMinutes([open])).toBeUndefined();
  expect(medianMinutes([decided(30), open, decided(4), decided(10)])).toBe(10);
  expect(medianMinutes([decided(30), decided(10)])).toBe(20);
});

test.each([
  [{ amount: '100', spent: '79', held: '0' }, {}, 0.79, false],
  [{ amount: '100', spent: '70', held: '10' }, {}, 0.8, true],
  [{ amount: '100', spent: '70', held: '0' }, { warn_at: 0.5 }, 0.7, true],
  [{ amount: '0', spent: '0', held: '0' }, {}, 1, true],
])('of %j, with %j, %d is used', (amounts, rule, share, isNear) => {
  const usage = { ...amounts, rule } as Usage;
  expect(shareUsed(usage)).toBeCloseTo(share);
  expect(isNearItsEnd(usage)).toBe(isNear);
});

test('authors of a time, the busiest first, each by the newest of theirs', () => {
  const change = (revision: number, by: string, at: string) => ({
    revision,
    changed_by: by,
    changed_at: at,
  });
  const changes = [
    change(4, 'ada', '2026-01-04T00:00:00Z'),
    change(3, 'bob', '2026-01-03T00:00:00Z'),
    change(2, 'bob', '2026-01-02T00:00:00Z'),
    change(1, 'eve', '2025-12-31T00:00:00Z'),
  ];
  expect(authorsSince(changes, Date.UTC(2026, 0, 1))).toEqual([
    { newest: changes[1], count: 2 },
    { newest: changes[0], count: 1 },
  ]);
});
