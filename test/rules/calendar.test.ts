/** Calendars of holidays (RFC 5545) as windows of a freeze. */
import { describe, expect, test } from '@jest/globals';
import { Temporal } from 'temporal-polyfill';
import {
  largestCalendar,
  mostEvents,
  UnusableCalendar,
  windowsOf,
} from '../../shared/budgets/calendar.ts';
import { freezesProblems } from '../../shared/budgets/freezes-document.ts';
import { Freezes } from '../../shared/contracts/freezes.ts';
import { problemsOf } from '../../shared/schema/validate.ts';

const now = Temporal.Instant.from('2026-06-01T12:00:00Z');
const timezone = 'Europe/Rome';
const calendar = (...events: readonly string[][]): string =>
  [
    'BEGIN:VCALENDAR',
    'VERSION:2.0',
    ...events.flatMap((lines) => ['BEGIN:VEVENT', ...lines, 'END:VEVENT']),
    'END:VCALENDAR',
  ].join('\r\n');
function read(...events: readonly string[][]) {
  const during = windowsOf(calendar(...events), { timezone, now });
  const freezes = { holidays: { during } };
  // What is made can be written.
  expect(problemsOf(Freezes, freezes)).toEqual([]);
  expect(freezesProblems(freezes, null, now.epochMilliseconds)).toEqual([]);
  return during;
}

describe('an event becomes', () => {
  test('days of each year, together and once', () => {
    const yearly = 'RRULE:FREQ=YEARLY';
    expect(
      read(
        ['DTSTART;VALUE=DATE:20201225', 'DTEND;VALUE=DATE:20201227', yearly],
        ['DTSTART;VALUE=DATE:20200101', yearly],
        ['DTSTART;VALUE=DATE:20200101', `${yearly};BYMONTH=1;BYMONTHDAY=1`],
      ),
    ).toEqual([{ dates: ['01-01', '12-25', '12-26'], timezone }]);
  });

  test('hours of each week in the zone that it names', () => {
    const lines = [
      'DTSTART;TZID=Asia/Tokyo:20260102T220000',
      'DTEND;TZID=Asia/Tokyo:20260103T060000',
    ];
    expect(read([...lines, 'RRULE:FREQ=WEEKLY;BYDAY=SA,FR'])).toEqual([
      { days: ['fri', 'sat'], start: '22:00', end: '06:00', timezone: 'Asia/Tokyo' },
    ]);
  });

  test('dated windows: by UTC, by the zone of whole days, and of what other rules say for two years', () => {
    expect(
      read(
        ['DTSTART:20261224T170000Z', 'DTEND:20261225T050000Z'],
        ['DTSTART;VALUE=DATE:20260815'],
        // The last Monday of May is over, and comes twice more within two years.
        ['DTSTART;VALUE=DATE:20200525', 'RRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=-1MO'],
        ['DTSTART:20200101T000000Z', 'DTEND:20200101T010000Z'],
        ['DTSTART;VALUE=DATE:20260901', 'STATUS:CANCELLED'],
      ),
    ).toEqual([
      { from: '2026-12-24T17:00', until: '2026-12-25T05:00', timezone: 'UTC' },
      { from: '2026-08-15T00:00', until: '2026-08-16T00:00', timezone },
      { from: '2027-05-31T00:00', until: '2027-06-01T00:00', timezone },
      { from: '2028-05-29T00:00', until: '2028-05-30T00:00', timezone },
    ]);
  });

  test('nothing before it begins: what comes back from some later year on is written out', () => {
    expect(read(['DTSTART;VALUE=DATE:20271225', 'RRULE:FREQ=YEARLY'])).toEqual([
      { from: '2027-12-25T00:00', until: '2027-12-26T00:00', timezone },
    ]);
    const weekly = ['DTSTART:20280501T080000Z', 'DTEND:20280501T090000Z', 'RRULE:FREQ=WEEKLY'];
    expect(read(weekly)[0]).toEqual({
      from: '2028-05-01T08:00',
      until: '2028-05-01T09:00',
      timezone: 'UTC',
    });
  });

  test('no less than it is: to the end of its last minute, by the zone of its end', () => {
    const day = [
      'DTSTART;TZID=Asia/Tokyo:20260103T000000',
      'DTEND;TZID=Asia/Tokyo:20260103T235959',
    ];
    expect(
      read(
        ['DTSTART:20261224T170000Z', 'DTEND:20261224T235959Z'],
        ['DTSTART;TZID=Asia/Tokyo:20261224T180000', 'DTEND:20261224T150000Z'],
        [...day, 'RRULE:FREQ=WEEKLY;BYDAY=SA,SU'],
        ['DTSTART;VALUE=DATE:20260105', 'RRULE:FREQ=WEEKLY'],
      ),
    ).toEqual([
      { from: '2026-12-24T17:00', until: '2026-12-25T00:00', timezone: 'UTC' },
      { from: '2026-12-24T18:00', until: '2026-12-25T00:00', timezone: 'Asia/Tokyo' },
      { days: ['sat', 'sun'], start: '00:00', end: '00:00', timezone: 'Asia/Tokyo' },
      { days: ['mon'], start: '00:00', end: '00:00', timezone },
    ]);
  });

  test.each([
    ['Asia/Tokyo', '20260603T080000', '20260604T230000Z', '2026-06-05T08:00'],
    ['Europe/Rome', '20260603T220000', '20260605T200000Z', '2026-06-05T22:00'],
    ['America/New_York', '20260603T010000', '20260606T035959Z', '2026-06-05T01:00'],
  ])('windows to the last in %s, which is told in UTC', (zone, start, until, last) => {
    const lines = [`DTSTART;TZID=${zone}:${start}`, 'DURATION:PT1H'];
    const windows = read([...lines, `RRULE:FREQ=DAILY;UNTIL=${until}`]);
    expect(windows).toHaveLength(3);
    expect(windows.at(-1)).toMatchObject({ from: last, timezone: zone });
  });

  test.each([
    [';TZID=America/New_York:20260603T233000', 'America/New_York'],
    [':20260603T233000Z', 'UTC'],
    [':20260603T233000', timezone],
    [':20260603T003000', timezone],
  ])('windows to a last day that is told without a time, beside DTSTART%s', (start, zone) => {
    const windows = read([`DTSTART${start}`, 'DURATION:PT1H', 'RRULE:FREQ=DAILY;UNTIL=20260605']);
    expect(windows).toHaveLength(3);
    expect(windows.at(-1)).toMatchObject({
      from: `2026-06-05T${/T(\d\d)/.exec(start)![1]}:30`,
      timezone: zone,
    });
  });

  test('as many days in a leap year as in others, and a leap day in no other year', () => {
    const lines = ['DTSTART;VALUE=DATE:20260227', 'DTEND;VALUE=DATE:20260302'];
    expect(read([...lines, 'RRULE:FREQ=YEARLY'])).toEqual([
      { from: '2027-02-27T00:00', until: '2027-03-02T00:00', timezone },
      { from: '2028-02-27T00:00', until: '2028-03-01T00:00', timezone },
    ]);
    expect(read(['DTSTART;VALUE=DATE:20240229', 'RRULE:FREQ=YEARLY'])).toEqual([
      { from: '2028-02-29T00:00', until: '2028-03-01T00:00', timezone },
    ]);
  });

  test('no window on a day that is left out', () => {
    const lines = ['DTSTART;VALUE=DATE:20201225', 'RRULE:FREQ=YEARLY'];
    expect(read([...lines, 'EXDATE;VALUE=DATE:20261225'])).toEqual([
      { from: '2027-12-25T00:00', until: '2027-12-26T00:00', timezone },
    ]);
    const daily = ['DTSTART;TZID=Asia/Tokyo:20260603T080000', 'DURATION:PT1H'];
    const ofUtc = ['RRULE:FREQ=DAILY;COUNT=3', 'EXDATE:20260603T230000Z'];
    expect(read([...daily, ...ofUtc]).map(({ from }) => from)).toEqual([
      '2026-06-03T08:00',
      '2026-06-05T08:00',
    ]);
  });
});

describe('refused, with its place', () => {
  const day = 'DTSTART;VALUE=DATE:20260901';
  test.each<[string, string, string]>([
    ['no calendar', 'hello', 'is not valid iCalendar'],
    ['a contact', 'BEGIN:VCARD\r\nVERSION:4.0\r\nFN:A\r\nEND:VCARD', 'is not valid iCalendar'],
    ['nothing to come', calendar(['DTSTART;VALUE=DATE:20200901']), 'has no event'],
    ['an empty event', calendar([day], [day, 'DTEND;VALUE=DATE:20260901']), '/VEVENT/1/DTEND'],
    ['one without a start', calendar(['SUMMARY:x']), '/VEVENT/0/DTSTART'],
    [
      'each second',
      calendar(['DTSTART:20260901T000000Z', 'DURATION:PT1S', 'RRULE:FREQ=SECONDLY']),
      '/VEVENT/0/RRULE',
    ],
    [
      'a zone that is none',
      calendar(['DTSTART;TZID=Nowhere:20260901T000000', 'DURATION:PT1H']),
      '/VEVENT/0/DTSTART',
    ],
    [
      'a changed recurrence',
      calendar([day, 'RECURRENCE-ID;VALUE=DATE:20260901']),
      '/VEVENT/0/RECURRENCE-ID',
    ],
    ['a day that is added', calendar([day, 'RDATE;VALUE=DATE:20260903']), '/VEVENT/0/RDATE'],
    [
      'two rules',
      calendar([day, 'RRULE:FREQ=DAILY;COUNT=2', 'RRULE:FREQ=WEEKLY;COUNT=2']),
      '/VEVENT/0/RRULE',
    ],
    ['a day of all months', calendar([day, 'RRULE:FREQ=YEARLY;BYMONTHDAY=1']), 'say which months'],
    ['a week of the year', calendar([day, 'RRULE:FREQ=YEARLY;BYWEEKNO=36']), 'has BYWEEKNO'],
    [
      'each day of two years',
      calendar(['DTSTART:20260901T000000Z', 'DTEND:20260901T010000Z', 'RRULE:FREQ=DAILY']),
      'a freeze has at most 100',
    ],
    [
      'too many events',
      calendar(...Array.from({ length: mostEvents + 1 }, () => [day])),
      '/VEVENT',
    ],
    ['too large', `${calendar([day])}${' '.repeat(largestCalendar)}`, 'is larger than 512 KiB'],
  ])('%s', (_what, text, message) => {
    const reading = () => windowsOf(text, { timezone, now });
    expect(reading).toThrow(UnusableCalendar);
    expect(reading).toThrow(message);
  });
});
