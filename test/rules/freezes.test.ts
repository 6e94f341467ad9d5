/** Freezes: windows by the clocks of every zone, against Temporal, and what they do to decisions. */
import { describe, expect, test } from '@jest/globals';
import { Temporal } from 'temporal-polyfill';
import { decide } from '../../services/config-resolver/rules/decide.ts';
import { platformStoppedBy } from '../../shared/change-sets/stops.ts';
import { serviceCaller } from '../../shared/access.ts';
import { frozenBy, type Acting } from '../../shared/budgets/frozen-by.ts';
import { freezesProblems } from '../../shared/budgets/freezes-document.ts';
import { frozenWithin, stretchAt, stretchOfAll } from '../../shared/budgets/windows.ts';
import type { Bounds } from '../../shared/contracts/bounds.ts';
import { Freezes, type Freeze, type FreezeWindow } from '../../shared/contracts/freezes.ts';
import { weekdays } from '../../shared/contracts/weekdays.ts';
import { limitDefaults } from '../../shared/contracts/risk.ts';
import type { Request } from '../../shared/contract-runtime/request.ts';
import { freezesRules } from '../../shared/documents/freezes-rules.ts';
import { problemsOf } from '../../shared/schema/validate.ts';
import { costsOf, mostGrowth } from '../support/cost.ts';
import { zonesThatChange } from '../support/zones.ts';

const ms = (text: string): number => Date.parse(text);
const plain: Acting = { action: 'scale', risk_level: 'medium', isRollback: false, at: 0 };
const frozen = (freeze: Freeze, at: string, acting: Partial<Acting> = {}) =>
  frozenBy([{ by: 'tenant', name: 'f', rule: freeze, revision: 1 }], {
    ...plain,
    ...acting,
    at: ms(at),
  }).map(({ until }) => until && new Date(until).toISOString());

describe('what deployments were frozen by elsewhere by mistake', () => {
  test("hours of the customers, and the third Saturday of the month, in the customers' zone", () => {
    const freeze: Freeze = {
      during: [
        {
          days: ['sat'],
          of_month: ['third'],
          start: '08:00',
          end: '12:00',
          timezone: 'Asia/Tokyo',
        },
      ],
    };
    // Saturdays of August 2026 are the 1st, 8th, 15th, 22nd and 29th.
    expect(frozen(freeze, '2026-08-14T23:00:00Z')).toEqual(['2026-08-15T03:00:00.000Z']);
    expect(frozen(freeze, '2026-08-14T22:59:59Z')).toEqual([]);
    expect(frozen(freeze, '2026-08-07T23:30:00Z')).toEqual([]);
    expect(frozen(freeze, '2026-08-21T23:30:00Z')).toEqual([]);
  });

  test('a weekly freeze is of the day that the zone has, not of the one that UTC has', () => {
    const freeze: Freeze = {
      during: [{ days: ['fri'], start: '16:00', end: '00:00', timezone: 'Australia/Brisbane' }],
    };
    // 16:00 on Friday in Brisbane is 06:00 in UTC; Friday evening in UTC is Saturday there.
    expect(frozen(freeze, '2026-07-03T06:00:00Z')).toEqual(['2026-07-03T14:00:00.000Z']);
    expect(frozen(freeze, '2026-07-03T16:00:00Z')).toEqual([]);
  });

  test('one that is to come freezes nothing today', () => {
    const freeze: Freeze = {
      during: [{ from: '2026-12-24T18:00', until: '2026-12-27T06:00', timezone: 'Europe/Rome' }],
    };
    expect(frozen(freeze, '2026-12-24T16:59:59Z')).toEqual([]);
    expect(frozen(freeze, '2026-12-24T17:00:00Z')).toEqual(['2026-12-27T05:00:00.000Z']);
    expect(frozen(freeze, '2026-12-27T05:00:00Z')).toEqual([]);
  });

  test('the time of acting is compared, not that of asking', () => {
    const origin = {
      layer: 'env' as const,
      source: 'env',
      path: '/automation_enabled',
      revision: null,
      updated_by: null,
      updated_at: null,
      shadowed: [],
    };
    const limits = {
      tenant_id: 't',
      service_type: null,
      values: { ...limitDefaults, require_approval_for_high_risk: false },
      explain: { automation_enabled: origin },
      revision: { tenant: 1, platform: 1 },
      over_time: {
        budgets: [],
        project_id: null,
        freezes: [
          {
            by: 'tenant' as const,
            name: 'christmas',
            revision: 9,
            rule: { during: [{ dates: ['12-25'], timezone: 'UTC' }], reason: 'holidays' },
          },
        ],
      },
    };
    const at = (moment: string) =>
      decide(limits, { action: 'scale', risk_level: 'low' }, ms(moment));
    expect(at('2026-12-24T23:59:59Z').decision).toBe('allow');
    expect(at('2026-12-25T00:00:00Z')).toEqual({
      decision: 'deny',
      reasons: [
        {
          rule: 'freeze',
          asked: '2026-12-25T00:00:00.000Z',
          name: 'christmas',
          resets_at: '2026-12-26T00:00:00.000Z',
          limit: 'holidays',
          layer: 'freezes',
          source: 'freezes_t',
          revision: 9,
        },
      ],
      retry_at: '2026-12-26T00:00:00.000Z',
      revision: { tenant: 1, platform: 1 },
    });
  });
});

describe('windows', () => {
  /** The first instant at which the clocks of the zone show the time or a later one. */
  function firstAtOrAfter(wanted: Temporal.PlainDateTime, zone: string): number {
    const asUtc = wanted.toZonedDateTime('UTC').epochMilliseconds;
    const day = 86_400_000;
    for (let at = asUtc - day; at <= asUtc + day; at += 60_000) {
      const offset = offsetAt(at, zone);
      if (at + offset >= asUtc) return at;
      // No clock is moved by less than this before the next look.
      const away = asUtc - (at + offset);
      const next = Temporal.Instant.fromEpochMilliseconds(at)
        .toZonedDateTimeISO(zone)
        .getTimeZoneTransition('next');
      const untilNext = next === null ? Infinity : next.epochMilliseconds - at;
      at += Math.min(away, untilNext) - 60_000;
    }
    throw new Error(`${wanted.toString()} never comes in ${zone}`);
  }
  const offsetAt = (at: number, zone: string): number =>
    Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO(zone).offsetNanoseconds / 1e6;

  /** By the definition: some date's start has come, and its end has not. */
  function isWithin({ days, start, end, timezone }: FreezeWindow, at: number): boolean {
    const today = Temporal.Instant.fromEpochMilliseconds(at)
      .toZonedDateTimeISO(timezone)
      .toPlainDate();
    return [-2, -1, 0, 1].some((offset) => {
      const date = today.add({ days: offset });
      if (!days!.includes(weekdays[date.dayOfWeek - 1]!)) return false;
      const last = end! > start! ? date : date.add({ days: 1 });
      const from = firstAtOrAfter(date.toPlainDateTime(start), timezone);
      const until = firstAtOrAfter(last.toPlainDateTime(end), timezone);
      return from <= at && at < until;
    });
  }

  const zones = Intl.supportedValuesOf('timeZone');
  const end = Date.UTC(2030, 0, 1);
  let seed = 7;
  const random = (below: number): number => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % below;
  };
  const timeAround = (minutes: number): string => {
    const of = (((minutes % 1440) + 1440) % 1440) - (minutes % 15);
    return new Date(Math.max(0, of) * 60_000).toISOString().slice(11, 16);
  };

  test('around every change of clocks in four years are what Temporal says', () => {
    let changes = 0;
    for (const timezone of zonesThatChange) {
      let at = Date.UTC(2026, 0, 1);
      while (at < end) {
        const next = Temporal.Instant.fromEpochMilliseconds(at)
          .toZonedDateTimeISO(timezone)
          .getTimeZoneTransition('next');
        if (next === null || next.epochMilliseconds >= end) break;
        changes += 1;
        at = next.epochMilliseconds;
        const minute = next.hour * 60 + next.minute;
        const window: FreezeWindow = {
          days: [weekdays[random(7)]!, weekdays[next.dayOfWeek - 1]!],
          start: timeAround(minute + random(180) - 90),
          end: timeAround(minute + random(180) - 60),
          timezone,
        };
        const asked = at + (random(360) - 180) * 60_000;
        const stretch = stretchAt(window, asked);
        const where = `${timezone} ${JSON.stringify(window)} ${new Date(asked).toISOString()}`;
        expect([where, stretch.isWithin]).toEqual([where, isWithin(window, asked)]);
        // The stretch is as long as it says, and no longer.
        expect([where, isWithin(window, stretch.until! - 1)]).toEqual([where, stretch.isWithin]);
        expect([where, isWithin(window, stretch.until!)]).toEqual([where, !stretch.isWithin]);
      }
    }
    expect(changes).toBeGreaterThan(200);
  });

  test('whole days of a year last from the first instant of the day to that of the next', () => {
    for (const timezone of zones) {
      const year = 2026 + random(10);
      const day = Temporal.PlainDate.from({ year, month: 1 + random(12), day: 1 + random(28) });
      const window = { dates: [day.toString().slice(5)], timezone };
      const from = day.toZonedDateTime(timezone).startOfDay().epochMilliseconds;
      const until = day.add({ days: 1 }).toZonedDateTime(timezone).startOfDay().epochMilliseconds;
      const where = `${timezone} ${day.toString()}`;
      expect([where, stretchAt(window, from)]).toEqual([where, { isWithin: true, until }]);
      expect([where, stretchAt(window, from - 1)]).toEqual([
        where,
        { isWithin: false, until: from },
      ]);
      expect([where, stretchAt(window, until).isWithin]).toEqual([where, false]);
    }
  });

  test('29 February is a day of leap years alone', () => {
    const window = { dates: ['02-29'], timezone: 'UTC' };
    expect(stretchAt(window, ms('2096-03-01T00:00:00Z')).until).toBe(ms('2104-02-29T00:00:00Z'));
  });

  test.each<[string, FreezeWindow['of_month'], string, boolean]>([
    ['the last Monday', ['last'], '2026-11-30T12:00:00Z', true],
    ['the last but one', ['last'], '2026-11-23T12:00:00Z', false],
    ['the first', ['first'], '2026-11-02T12:00:00Z', true],
    ['the fourth', ['fourth'], '2026-11-23T12:00:00Z', true],
  ])('%s of a month', (_what, of_month, at, expected) => {
    const window: FreezeWindow = {
      days: ['mon'],
      of_month: of_month!,
      start: '09:00',
      end: '17:00',
      timezone: 'UTC',
    };
    expect(stretchAt(window, ms(at)).isWithin).toBe(expected);
  });
});

describe('a freeze', () => {
  const night: FreezeWindow = {
    days: [...weekdays],
    start: '22:00',
    end: '06:00',
    timezone: 'UTC',
  };
  const at = '2026-07-06T23:00:00Z';

  test('ends when windows that overlap or follow each other have ended', () => {
    const morning: FreezeWindow = { ...night, start: '06:00', end: '09:00' };
    expect(frozen({ during: [night, morning] }, at)).toEqual(['2026-07-07T09:00:00.000Z']);
  });
  test('of the only times holds outside of them, until the next', () => {
    const freeze: Freeze = { during: [night], only_within: true };
    expect(frozen(freeze, at)).toEqual([]);
    expect(frozen(freeze, '2026-07-07T12:00:00Z')).toEqual(['2026-07-07T22:00:00.000Z']);
  });
  test('that is always there has no end, and costs no search for one', () => {
    const always: FreezeWindow = { ...night, start: '00:00', end: '00:00' };
    const days = Array.from({ length: 366 }, (_each, index) =>
      new Date(Date.UTC(2024, 0, 1 + index)).toISOString().slice(5, 10),
    );
    const zones = ['UTC', 'Europe/Rome', 'America/New_York', 'Asia/Kolkata', 'Pacific/Apia'];
    const began = performance.now();
    for (const timezone of zones)
      for (let count = 0; count < 5; count += 1) {
        const during = Array.from({ length: 10 }, () => ({ ...always, timezone }));
        expect(frozen({ during }, at)).toEqual([null]);
        expect(frozen({ during: [{ dates: days, timezone }] }, at)).toEqual([null]);
      }
    // As many windows as a document may have: it was minutes where each day was looked up.
    expect(performance.now() - began).toBeLessThan(10_000);
    const next = { ...night, days: ['mon' as const], start: '09:00', end: '17:00' };
    expect(frozen({ during: [next], only_within: true }, at)).toEqual(['2026-07-13T09:00:00.000Z']);
  });
  test('whose windows take turns costs a few looks at each, not one at each turn', () => {
    const days = Array.from({ length: 366 }, (_each, index) =>
      new Date(Date.UTC(2024, 0, 1 + index)).toISOString().slice(5, 10),
    );
    const during = Array.from({ length: 100 }, (_each, window) => ({
      dates: days.filter((_day, index) => index % 2 === window % 2),
      timezone: 'Europe/Rome',
    }));
    const [once, all] = costsOf(
      () => during.map((window) => stretchAt(window, ms(at))),
      () => expect(stretchOfAll(during, ms(at)).isWithin).toBe(true),
    );
    expect(all).toBeLessThanOrEqual(mostGrowth * once!);
  }, 60_000);
  test('of a hundred windows that follow each other ends with the last', () => {
    const hour = (count: number): string =>
      new Date(ms('2026-07-01T00:00:00Z') + count * 3_600_000).toISOString().slice(0, 16);
    const during = Array.from({ length: 100 }, (_each, index) => ({
      from: hour(99 - index),
      until: hour(100 - index),
      timezone: 'UTC',
    }));
    expect(frozen({ during }, '2026-07-01T00:30:00Z')).toEqual(['2026-07-05T04:00:00.000Z']);
  });
  test('of windows that take turns for ever has no end', () => {
    const half = (start: string, end: string): FreezeWindow => ({ ...night, start, end });
    const during = [half('00:00', '12:00'), half('12:00', '00:00')];
    expect(frozen({ during }, at)).toEqual([null]);
    expect(frozen({ during, only_within: true }, at)).toEqual([]);
    // One long window has its own.
    const long: FreezeWindow = {
      from: '2026-01-01T00:00',
      until: '2031-01-01T00:00',
      timezone: 'UTC',
    };
    expect(frozen({ during: [long] }, at)).toEqual(['2031-01-01T00:00:00.000Z']);
    const over = { from: ms('2027-07-06T00:00:00Z'), until: ms('2027-08-06T00:00:00Z') };
    expect(frozenWithin({ during }, over).at(-1)!.until).toBe(over.until);
    expect(frozenWithin({ during, only_within: true }, over)).toEqual([]);
  });
  test('of windows without an end for two years is looked at again after them', () => {
    const during = ['2026', '2028', '2030'].map((year) => ({
      from: `${year}-01-01T00:00`,
      until: `${Number(year) + 2}-01-01T00:00`,
      timezone: 'UTC',
    }));
    const [freeze, only]: [Freeze, Freeze] = [{ during }, { during, only_within: true }];
    for (const moment of ['2026-07-06T23:00:00Z', '2028-07-06T23:00:00Z']) {
      expect(frozen(freeze, moment)).toEqual([null]);
      expect(frozen(only, moment)).toEqual([]);
    }
    expect(frozen(freeze, '2032-01-01T00:00:00Z')).toEqual([]);
    expect(frozen(only, '2032-01-01T00:00:00Z')).toEqual([null]);
  });
  test('of only times that are over holds for good', () => {
    const over: FreezeWindow = {
      from: '2026-01-01T00:00',
      until: '2026-01-02T00:00',
      timezone: 'UTC',
    };
    expect(frozen({ during: [over], only_within: true }, at)).toEqual([null]);
  });
  test.each<[string, Partial<Freeze>, Partial<Acting>, number]>([
    ['another action', { match: { actions: ['deploy'] } }, {}, 0],
    ['its action', { match: { actions: ['scale'] } }, {}, 1],
    ['another risk', { match: { risk_levels: ['high', 'low'] } }, {}, 0],
    ['a rollback', { allow: { rollbacks: true } }, { isRollback: true }, 0],
    ['what is no rollback', { allow: { rollbacks: true } }, {}, 1],
    ['a risk level that passes', { allow: { risk_levels: ['medium'] } }, {}, 0],
    ['another risk level', { allow: { risk_levels: ['low'] } }, {}, 1],
    [
      'what is overridden',
      { overrides: { o: { until: '2026-07-07T00:00:00Z', reason: 'r' } } },
      {},
      0,
    ],
    ['an override that is over', { overrides: { o: { until: at, reason: 'r' } } }, {}, 1],
    [
      'an override to come',
      {
        overrides: {
          o: { from: '2026-07-06T23:00:01Z', until: '2026-07-07T00:00:00Z', reason: 'r' },
        },
      },
      {},
      1,
    ],
    [
      'an override for something else',
      {
        overrides: { o: { match: { actions: ['x'] }, until: '2026-07-07T00:00:00Z', reason: 'r' } },
      },
      {},
      1,
    ],
  ])('and %s', (_what, more, acting, count) => {
    expect(frozen({ during: [night], ...more }, at, acting)).toHaveLength(count);
  });
});

describe('documents', () => {
  const zone = { timezone: 'UTC' };
  const now = ms('2026-06-01T00:00:00Z');
  const paths = (during: readonly unknown[], before: Freezes | null = null): string[] => {
    const document: unknown = { f: { during } };
    const ofSchema = problemsOf(Freezes, document);
    const problems =
      ofSchema.length > 0 ? ofSchema : freezesProblems(document as Freezes, before, now);
    return problems.map(({ path }) => path);
  };
  const over = { from: '2026-01-01T00:00', until: '2026-01-02T00:00', ...zone };
  test.each<[string, readonly unknown[], string]>([
    ['no window', [], '/f/during'],
    ['a window of no kind', [{ from: '2026-07-01T00:00', ...zone }], '/f/during/0'],
    ['a window of two kinds', [{ ...over, dates: ['12-25'] }], '/f/during/0'],
    ['an unknown zone', [{ dates: ['12-25'], timezone: 'Mars/Base' }], '/f/during/0/timezone'],
    ['no zone', [{ dates: ['12-25'] }], '/f/during/0/timezone'],
    [
      'an empty window',
      [{ from: '2026-07-01T00:00', until: '2026-07-01T00:00', ...zone }],
      '/f/during/0/until',
    ],
    ['a window in the past', [over], '/f/during/0/until'],
    [
      'a date that does not exist',
      [{ from: '2026-02-30T00:00', until: '2026-07-01T00:00', ...zone }],
      '/f/during/0/from',
    ],
    ['a day that no year has', [{ dates: ['12-25', '02-30'], ...zone }], '/f/during/0/dates/1'],
    [
      'an ordinal without days',
      [{ dates: ['12-25'], of_month: ['first'], ...zone }],
      '/f/during/0',
    ],
  ])('refuse %s', (_what, during, path) => {
    expect(paths(during)).toEqual([path]);
  });
  test('have a thousand windows in all, and it is said', () => {
    const during = Array.from({ length: 100 }, () => ({ dates: ['12-25'], ...zone }));
    const many = Object.fromEntries(Array.from({ length: 11 }, (_, n) => [`f${n}`, { during }]));
    const [problem] = freezesProblems(many, null, now);
    expect(problem).toEqual({ path: '', message: expect.stringContaining('1000 windows') });
    const { f0: _first, ...fewer } = many;
    expect(freezesProblems(fewer, many, now)).toEqual([]);
    expect(freezesProblems(fewer, null, now)).toEqual([]);
  });
  test('are in the past by the time of the write, whatever the clock of the node says', async () => {
    const next: Freezes = { f: { during: [over] } };
    const proposed = { next, address: {}, current: null, caller: serviceCaller('test') };
    const context = await freezesRules.prepare({}, {} as Request, next);
    const refusedAt = (at: string) =>
      freezesRules.check({ ...proposed, context, at: new Date(at) }).refused.length;
    expect(refusedAt('2026-01-01T23:59:59Z')).toBe(0);
    expect(refusedAt('2026-01-02T00:00:00Z')).toBe(1);
  });
  test('keep a window that has become past, and refuse it as a new one', () => {
    const before = { f: { during: [over] } };
    const more = { dates: ['12-25'], ...zone };
    expect(paths([over, more], before)).toEqual([]);
    expect(paths([{ ...over, until: '2026-01-03T00:00' }, more], before)).toEqual([
      '/f/during/0/until',
    ]);
  });
});

test.each([
  ['const', { const: false }, true],
  ['enum', { enum: [false] }, true],
  ['enum that allows it', { enum: [false, true] }, false],
  ['type', { type: 'boolean' }, false],
  ['const that only warns', { const: false, mode: 'warn' }, false],
  ['const for some service types', { const: false, service_types: ['cloud_sql'] }, false],
] as const)('an emergency stop of the platform by %s', (_by, bound, holds) => {
  const bounds = { automation_enabled: bound } as unknown as Bounds;
  expect(platformStoppedBy(bounds, {}, new Date(0)) !== undefined).toBe(holds);
});

test.each([
  ['everything', undefined, true],
  ['what automation would call it', { actions: ['config.change'], risk_levels: ['low'] }, true],
  ['another action', { actions: ['scale'] }, false],
  ['some service types', { service_types: ['cloud_sql'] }, false],
  ['some projects', { project_ids: ['shop'] }, false],
  ['some agents', { agent_types: ['scaler'] }, false],
] as const)('a freeze of the platform about %s stops its changes: %j', (_what, match, holds) => {
  const during = [{ from: '2026-01-01T00:00', until: '2027-01-01T00:00', timezone: 'UTC' }];
  const freezes = { f: { during, ...(match && { match }) } } as unknown as Freezes;
  const now = new Date('2026-06-01T00:00:00Z');
  expect(platformStoppedBy({}, freezes, now) !== undefined).toBe(holds);
});
