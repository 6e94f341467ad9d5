/** Budgets without a database: exact decimals, periods of every zone, and documents that are refused. */
import { describe, expect, jest, test } from '@jest/globals';
import { Temporal } from 'temporal-polyfill';
import { projectBudgetProblems } from '../../shared/budgets/project-budget.ts';
import { budgetsProblems } from '../../shared/budgets/budgets-document.ts';
import { decimalText, millionthsOf, millionthsUp } from '../../shared/budgets/decimal.ts';
import { bucketMs, periodAt } from '../../shared/budgets/periods.ts';
import { budgetPeriods, Budgets, type Budget } from '../../shared/contracts/budgets.ts';
import { problemsOf } from '../../shared/schema/validate.ts';
import fc, { runs } from '../support/properties.ts';
import { zonesThatChange } from '../support/zones.ts';

describe('decimals', () => {
  test.each([
    [0.1, '0.1'],
    [0.3, '0.3'],
    [19.99, '19.99'],
    [1e-7, '0.000001'],
    [5e-324, '0.000001'],
    [0.1234561, '0.123457'],
    [1e21, '1000000000000000000000'],
    [999_999_999_999.125, '999999999999.125'],
    [0, '0'],
  ])('%p as JSON writes it is %s, and never less', (value, text) => {
    expect(decimalText(millionthsUp(value))).toBe(text);
  });

  test('any sum of cents is exact', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 1_000_000 })), (cents) => {
        const sum = cents.reduce((all, each) => all + millionthsUp(each / 100), 0n);
        const exact = cents.reduce((all, each) => all + each, 0);
        expect(sum).toBe(BigInt(exact) * 10_000n);
        expect(millionthsOf(decimalText(-sum))).toBe(-sum);
      }),
    );
  });
});

describe('documents', () => {
  const good: Budget = { amount: '500.00', currency: 'EUR', per: 'day' };
  const refused: [string, unknown, string][] = [
    ['negative', { ...good, amount: '-1' }, '/b/amount'],
    ['a float', { ...good, amount: 500 }, '/b/amount'],
    ['huge', { ...good, amount: '1000000000000' }, '/b/amount'],
    ['NaN', { ...good, amount: 'NaN' }, '/b/amount'],
    ['too exact', { ...good, amount: '0.0000001' }, '/b/amount'],
    ['no time zone', { ...good, timezone: 'Europe/Atlantis' }, '/b/timezone'],
    ['an offset for a time zone', { ...good, timezone: '+02:00' }, '/b/timezone'],
    ['no period', { ...good, per: 'year' }, '/b/per'],
    ['a warning beyond the amount', { ...good, warn_at: 1.5 }, '/b/warn_at'],
    ['matching nothing', { ...good, match: { actions: [] } }, '/b/match/actions'],
  ];
  test.each(refused)('refuse what is %s, with its path', (_what, budget, path) => {
    expect(problemsOf(Budgets, { b: budget }).map((each) => each.path)).toContain(path);
  });

  test('refuse a hundred and one budgets, and name the limit', () => {
    const many = Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`b${n}`, good]));
    expect(problemsOf(Budgets, many)).toEqual([
      { path: '', message: expect.stringContaining('100') },
    ]);
  });

  const evaluated: [string, Budgets, string | undefined, string[]][] = [
    ['costs of no currency', { b: { amount: '1', per: 'day' } }, undefined, ['/b/currency']],
    [
      'half an action',
      { b: { amount: '1.5', per: 'day', counts: 'actions' } },
      undefined,
      ['/b/amount'],
    ],
    [
      'actions in a currency',
      { b: { ...good, amount: '5', counts: 'actions' } },
      undefined,
      ['/b/currency'],
    ],
    ['two currencies', { a: good, b: { ...good, currency: 'USD' } }, undefined, ['/b/currency']],
    ["another currency than the platform's", { b: good }, 'USD', ['/b/currency']],
    [
      'nothing wrong',
      { a: good, b: { amount: '3', per: 'hour', counts: 'actions' } },
      undefined,
      [],
    ],
  ];
  test.each(evaluated)('%s', (_what, next, given, paths) => {
    expect(budgetsProblems(next, null, given).map(({ path }) => path)).toEqual(paths);
  });

  test.each([
    ['no budget', {}, undefined, ['/budget']],
    [
      'more digits than are exact',
      { amount: 0.0000001, currency: 'EUR' },
      undefined,
      ['/budget/amount'],
    ],
    [
      'more than any ledger holds',
      { amount: 1e12, currency: 'EUR' },
      undefined,
      ['/budget/amount'],
    ],
    ['another currency', { amount: 1, currency: 'EUR' }, 'USD', ['/budget/currency']],
    ['nothing wrong', { amount: 1000.5, currency: 'EUR' }, 'EUR', []],
  ])('of a project that is enforced: %s', (_what, budget, currency, paths) => {
    const project = {
      project_id: 'shop',
      ...('amount' in budget && { budget }),
    };
    const problems = (enforced: boolean) =>
      projectBudgetProblems({ ...project, enforce_budget: enforced }, currency);
    expect(problems(true).map(({ path }) => path)).toEqual(paths);
    expect(problems(false)).toEqual([]);
  });

  test('what was stored before is not judged again', () => {
    const stored = { old: { ...good, currency: 'USD' } };
    expect(budgetsProblems(stored, stored, 'EUR')).toEqual([]);
  });
});

describe('periods', () => {
  const zones = Intl.supportedValuesOf('timeZone');
  const from = Date.UTC(2026, 0, 1);
  const until = Date.UTC(2036, 0, 1);
  const moment = fc.integer({ min: from, max: until });
  const zone = fc.constantFrom(...zones);

  /** Of four years, after which the rules of a zone come again. */
  function changesOf(timezone: string): number[] {
    const changes: number[] = [];
    let next = Temporal.Instant.fromEpochMilliseconds(from)
      .toZonedDateTimeISO(timezone)
      .getTimeZoneTransition('next');
    while (next && next.epochMilliseconds < Date.UTC(2030, 0, 1)) {
      changes.push(next.epochMilliseconds);
      next = next.getTimeZoneTransition('next');
    }
    return changes;
  }

  test('of hundreds of budgets are worked out once, as long as they last', () => {
    const asked = jest.spyOn(Temporal.Instant, 'fromEpochMilliseconds');
    const budget = { per: 'month', timezone: 'Pacific/Chatham' } as const;
    const all = Array.from({ length: 200 }, (_each, n) => periodAt(budget, from + n * 60_000));
    const next = periodAt(budget, all[0]!.resetsAt);
    const count = asked.mock.calls.length;
    asked.mockRestore();
    expect(new Set(all).size).toBe(1);
    expect(next.from).toBe(all[0]!.resetsAt);
    expect(count).toBe(2);
  });

  test('of every zone begin with a bucket, hold their moment, and follow each other', () => {
    fc.assert(
      fc.property(zone, moment, fc.constantFrom(...budgetPeriods), (timezone, at, per) => {
        const period = periodAt({ per, timezone }, at);
        expect(period.from % bucketMs).toBe(0);
        expect(period.from <= at && at < period.resetsAt).toBe(true);
        expect(periodAt({ per, timezone }, period.resetsAt).from).toBe(period.resetsAt);
        expect(periodAt({ per, timezone }, period.resetsAt - 1)).toEqual(period);
      }),
      runs(400),
    );
  });

  const around = [
    ...[-45, -15, 0, 15, 45].map((minutes) => ['hour', minutes] as const),
    ...(['day', 'week', 'month'] as const).map((per) => [per, 0] as const),
  ];
  test('hold their moment and follow each other around every change of clocks', () => {
    for (const timezone of zonesThatChange)
      for (const change of changesOf(timezone))
        for (const [per, minutes] of around) {
          const at = change + minutes * 60_000;
          const { from: start, resetsAt } = periodAt({ per, timezone }, at);
          const next = periodAt({ per, timezone }, resetsAt).from;
          if (start > at || at >= resetsAt || next !== resetsAt || start % bucketMs !== 0)
            throw new Error(`${per} of ${timezone} at ${new Date(at).toISOString()}`);
        }
  });

  test('an hour in which clocks change by less than one is two', () => {
    const at = (moment: string) =>
      periodAt({ per: 'hour', timezone: 'Australia/Lord_Howe' }, Date.parse(moment));
    const [first, second] = [at('2026-04-04T14:30:00Z'), at('2026-04-04T15:10:00Z')];
    expect([first, second].map(({ from: start, resetsAt }) => (resetsAt - start) / 60_000)).toEqual(
      [60, 30],
    );
    expect(second.from).toBe(first.resetsAt);
  });

  test.each(['day', 'week', 'month'] as const)(
    'a %s begins at the first instant of its first date by the clocks of any zone',
    (per) => {
      fc.assert(
        fc.property(zone, moment, (timezone, at) => {
          const { from: start } = periodAt({ per, timezone }, at);
          const zoned = Temporal.Instant.fromEpochMilliseconds(start).toZonedDateTimeISO(timezone);
          expect(zoned.startOfDay().epochMilliseconds).toBe(start);
          if (per === 'week') expect(zoned.dayOfWeek).toBe(1);
          if (per === 'month') expect(zoned.day).toBe(1);
        }),
        runs(200),
      );
    },
  );

  test('a rolling one never forgets too early, and no more than a bucket too late', () => {
    fc.assert(
      fc.property(moment, fc.integer({ min: 0, max: 3_600_000 * 2 }), (spent, after) => {
        const at = spent + after;
        const counts =
          Math.floor(spent / bucketMs) * bucketMs >=
          periodAt({ per: 'hour', window: 'rolling' }, at).from;
        if (after < 3_600_000) expect(counts).toBe(true);
        if (after >= 3_600_000 + 2 * bucketMs) expect(counts).toBe(false);
      }),
    );
  });

  test('a day in Rome is 23 hours long when the clocks go forward', () => {
    const { from: start, resetsAt } = periodAt(
      { per: 'day', timezone: 'Europe/Rome' },
      Date.UTC(2026, 2, 29, 12),
    );
    expect((resetsAt - start) / 3_600_000).toBe(23);
  });
});
