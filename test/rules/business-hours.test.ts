/** Business hours at the edges of the day, the week and the clocks. */
import { describe, expect, test } from '@jest/globals';
import { opensNext } from '../../services/config-resolver/rules/business-hours.ts';
import { weekdays } from '../../shared/contracts/weekdays.ts';
import { BusinessHours, type BusinessHours as Hours } from '../../shared/contracts/weekly-hours.ts';
import { problemsOf } from '../../shared/schema/validate.ts';
import fc, { runs } from '../support/properties.ts';

const hoursOf = (
  timezone: string,
  start: string,
  end: string,
  days: Hours['days'] = [...weekdays],
) => ({
  days,
  start,
  end,
  timezone,
});
const opening = (hours: Hours, at: string): string =>
  opensNext(hours, Date.parse(at))?.toISOString() ?? 'open';

const workdays: Hours['days'] = ['mon', 'tue', 'wed', 'thu', 'fri'];
const office = hoursOf('Europe/Berlin', '09:00', '17:00', workdays);
const gap = hoursOf('Europe/Berlin', '02:30', '06:00');
const south = hoursOf('Australia/Sydney', '02:15', '05:00');
const half = hoursOf('Australia/Lord_Howe', '02:10', '04:00');
const night = hoursOf('America/New_York', '22:00', '06:00', ['fri']);
const wholeDay = hoursOf('Asia/Kolkata', '00:00', '00:00', ['sun']);
const twice = hoursOf('America/New_York', '01:30', '01:45');
const skipped = hoursOf('Pacific/Apia', '09:00', '17:00', ['fri']);

describe('business hours', () => {
  test.each([
    ['before the start', office, '2026-07-01T06:59:59.999Z', '2026-07-01T07:00:00.000Z'],
    ['at the start', office, '2026-07-01T07:00:00.000Z', 'open'],
    ['before the end', office, '2026-07-01T14:59:59.999Z', 'open'],
    ['at the end, which is exclusive', office, '2026-07-01T15:00:00Z', '2026-07-02T07:00:00.000Z'],
    ['on a Friday evening', office, '2026-07-03T15:00:00Z', '2026-07-06T07:00:00.000Z'],
    ['over a change of the clocks', office, '2026-03-27T16:00:00Z', '2026-03-30T07:00:00.000Z'],
    ['over the other change', office, '2026-10-23T15:00:00Z', '2026-10-26T08:00:00.000Z'],

    ['before a gap in which it starts', gap, '2026-03-29T00:59:59Z', '2026-03-29T01:00:00.000Z'],
    ['after a gap in which it starts', gap, '2026-03-29T01:00:00Z', 'open'],
    ['before a gap in the south', south, '2026-10-03T15:59:59Z', '2026-10-03T16:00:00.000Z'],
    ['after a gap in the south', south, '2026-10-03T16:00:00Z', 'open'],
    ['before a gap of half an hour', half, '2026-10-03T15:29:59Z', '2026-10-03T15:30:00.000Z'],
    ['after a gap of half an hour', half, '2026-10-03T15:30:00Z', 'open'],

    ['in the first of two equal hours', twice, '2026-11-01T05:30:00Z', 'open'],
    ['between the two', twice, '2026-11-01T05:45:00Z', '2026-11-02T06:30:00.000Z'],
    ['in the second of two equal hours', twice, '2026-11-01T06:30:00Z', '2026-11-02T06:30:00.000Z'],

    ['after midnight of a night', night, '2026-07-04T09:59:59Z', 'open'],
    ['at the end of a night', night, '2026-07-04T10:00:00Z', '2026-07-11T02:00:00.000Z'],
    [
      'on the day after, whose night it is not',
      night,
      '2026-07-05T03:00:00Z',
      '2026-07-11T02:00:00.000Z',
    ],

    ['before a whole day', wholeDay, '2026-07-04T18:29:59Z', '2026-07-04T18:30:00.000Z'],
    ['in a whole day', wholeDay, '2026-07-05T18:29:59Z', 'open'],
    ['after a whole day', wholeDay, '2026-07-05T18:30:00Z', '2026-07-11T18:30:00.000Z'],
    ['in the week without a Friday', skipped, '2011-12-29T12:00:00Z', '2012-01-05T19:00:00.000Z'],
  ])('%s', (_name, hours, at, wanted) => {
    expect(opening(hours, at)).toBe(wanted);
  });

  const zones = [
    'UTC',
    'Europe/Berlin',
    'America/New_York',
    'America/St_Johns',
    'Australia/Sydney',
    'Australia/Lord_Howe',
    'Asia/Kathmandu',
    'America/Santiago',
    'Africa/Casablanca',
  ];
  const time = fc
    .tuple(fc.integer({ min: 0, max: 23 }), fc.constantFrom(0, 1, 15, 30, 45, 59))
    .map(([hour, minute]) => `${two(hour)}:${two(minute)}`);
  const anyHours = fc.record({
    days: fc.uniqueArray(fc.constantFrom(...weekdays), { minLength: 1 }),
    start: time,
    end: time,
    timezone: fc.constantFrom(...zones),
  });
  /** In March and from September to November, when most clocks change. */
  const minute = fc
    .tuple(
      fc.constantFrom(2, 3, 8, 9, 10),
      fc.integer({ min: 1, max: 28 }),
      fc.integer({ min: 0, max: 1439 }),
    )
    .map(([month, day, of]) => Date.UTC(2026, month, day) + of * 60_000);

  test('are what somebody sees who watches the clock on the wall', () => {
    fc.assert(
      fc.property(anyHours, minute, (hours, at) => {
        const watched = watch(hours, at);
        const next = opensNext(hours, at);
        expect(next?.toISOString() ?? 'open').toBe(watched);
        // Asked again, from what is remembered.
        expect(opensNext(hours, at)).toEqual(next);
      }),
      runs(25),
    );
  });

  test('name a time zone that exists', () => {
    const problems = (timezone: string) => problemsOf(BusinessHours, { ...office, timezone });
    expect(problems('Europe/Berlin')).toEqual([]);
    const wanted = [{ path: '/timezone', message: 'is not an IANA time zone' }];
    for (const name of ['Mars/Base', '+02:00', 'Europe']) expect(problems(name)).toEqual(wanted);
  });
});

const two = (number: number): string => String(number).padStart(2, '0');

const clocks = new Map<string, Intl.DateTimeFormat>();

/**
 * What a clock on the wall shows, as text that is ordered as time is, but for hours that come
 * twice.
 */
function wallAt(zone: string, at: number): { date: string; time: string } {
  const clock =
    clocks.get(zone) ??
    new Intl.DateTimeFormat('sv-SE', {
      timeZone: zone,
      dateStyle: 'short',
      timeStyle: 'short',
      hourCycle: 'h23',
    });
  clocks.set(zone, clock);
  const [date, time] = clock.format(at).split(' ');
  return { date: date!, time: time! };
}

/**
 * Goes through the minutes and opens and closes at the first one that shows the time, or a later
 * one where it is left out.
 */
function watch(hours: Hours, at: number): string {
  const step = 60_000;
  const begin = at - 2 * 24 * 60 * step;
  const starts = new Map<string, number>();
  let closesAt: { date: string; time: string } | undefined;
  let isOpen = false;
  for (let now = begin; now < at + 9 * 24 * 60 * step; now += step) {
    const { date, time } = wallAt(hours.timezone, now);
    const due = `${closesAt?.date} ${closesAt?.time}`;
    if (closesAt && `${date} ${time}` >= due) {
      isOpen = false;
      closesAt = undefined;
    }
    const day = weekdays[(new Date(`${date}T00:00Z`).getUTCDay() + 6) % 7]!;
    const begins = hours.days.includes(day) && time >= hours.start && !starts.has(date);
    if (time >= hours.start && !starts.has(date)) starts.set(date, now);
    if (begins) {
      const lasts = hours.end > hours.start;
      const end = lasts
        ? date
        : new Date(Date.parse(`${date}T12:00Z`) + 86_400_000).toISOString().slice(0, 10);
      const isOver = `${date} ${time}` >= `${end} ${hours.end}`;
      if (now > at && !isOpen && !isOver) return new Date(now).toISOString();
      isOpen = !isOver;
      closesAt = isOver ? undefined : { date: end, time: hours.end };
    }
    if (now === at && isOpen) return 'open';
  }
  return 'never';
}
