/** A calendar of holidays (iCalendar, RFC 5545) as windows of a freeze. */
import ICAL from 'ical.js';
import { Temporal } from 'temporal-polyfill';
import type { FreezeWindow } from '../contracts/freezes.ts';
import { weekdays } from '../contracts/weekdays.ts';

/** Of a file. */
export const largestCalendar = 512 * 1024;
export const mostEvents = 1000;
/** Windows of a freeze (shared/contracts/freezes.ts). */
const mostWindows = 100;
const yearsAhead = 2;
/** Occurrences of one event that are looked at: of each day of some ten years. */
const mostOccurrences = 4000;

/** What makes a calendar unusable, and where. */
export class UnusableCalendar extends Error {
  constructor(path: string, message: string) {
    super(`${path} ${message}`.trim());
  }
}

interface Reading {
  /** Of whole days, and of times that name none. */
  readonly timezone: string;
  readonly now: Temporal.Instant;
}

/** The windows that are not over; whole days of each year as one. */
export function windowsOf(text: string, reading: Reading): FreezeWindow[] {
  if (new TextEncoder().encode(text).length > largestCalendar)
    throw new UnusableCalendar('', `is larger than ${largestCalendar / 1024} KiB`);
  const events = calendarOf(text).getAllSubcomponents('vevent');
  if (events.length > mostEvents)
    throw new UnusableCalendar(
      '/VEVENT',
      `has ${events.length} events, and may have ${mostEvents}`,
    );
  const read = events.map((event, index) => ofEvent(event, `/VEVENT/${index}`, reading));
  const dates = [...new Set(read.flatMap(({ dates: own }) => own))].toSorted();
  const windows = new Map(
    read.flatMap(({ windows: own }) => own).map((window) => [JSON.stringify(window), window]),
  );
  const all: FreezeWindow[] = [
    ...(dates.length > 0 ? [{ dates, timezone: reading.timezone }] : []),
    ...windows.values(),
  ];
  if (all.length === 0) throw new UnusableCalendar('', 'has no event that is still to come');
  if (all.length > mostWindows)
    throw new UnusableCalendar(
      '',
      `makes ${all.length} windows; a freeze has at most ${mostWindows}`,
    );
  return all;
}

function calendarOf(text: string): InstanceType<typeof ICAL.Component> {
  let parsed: unknown;
  try {
    parsed = ICAL.parse(text);
  } catch (error) {
    throw new UnusableCalendar('', `is not valid iCalendar: ${(error as Error).message}`);
  }
  if (!Array.isArray(parsed) || parsed[0] !== 'vcalendar')
    throw new UnusableCalendar('', 'is not valid iCalendar, or several calendars');
  return new ICAL.Component(parsed);
}

interface Read {
  /** Whole days of each year, MM-DD. */
  readonly dates: readonly string[];
  readonly windows: readonly FreezeWindow[];
}
const nothing: Read = { dates: [], windows: [] };

function ofEvent(
  component: InstanceType<typeof ICAL.Component>,
  path: string,
  reading: Reading,
): Read {
  if (component.getFirstPropertyValue('status') === 'CANCELLED') return nothing;
  if (component.hasProperty('recurrence-id'))
    throw new UnusableCalendar(
      `${path}/RECURRENCE-ID`,
      'changes a single recurrence: write that as its own event',
    );
  const event = new ICAL.Event(component);
  if (!component.hasProperty('dtstart'))
    throw new UnusableCalendar(`${path}/DTSTART`, 'is missing');
  const { startDate: start } = event;
  const timezone = zoneOf(component, 'dtstart', path, reading);
  const end = endOf(event, timezone, path, reading);
  if (Temporal.PlainDateTime.compare(end, plainOf(start)) <= 0)
    throw new UnusableCalendar(`${path}/DTEND`, 'must be after DTSTART: the event is empty');
  const [first, ...others] = component.getAllProperties('rrule');
  if (others.length > 0)
    throw new UnusableCalendar(`${path}/RRULE`, 'is there more than once: write an event for each');
  if (component.hasProperty('rdate'))
    throw new UnusableCalendar(`${path}/RDATE`, 'adds recurrences: write each as its own event');
  const isPlain = !component.hasProperty('exdate');
  const rule = first?.getFirstValue() as InstanceType<typeof ICAL.Recur> | undefined;
  if (rule) requireReadable(rule, start, `${path}/RRULE`);
  if (isPlain && rule && isEndless(rule)) {
    const days = start.isDate ? daysOf(plainOf(start), end) : [];
    const isYearly = isSameDayEachYear(rule, start) && !days.some(isAtLeapDay);
    if (days.length > 0 && isYearly && comesWithin(start, { years: 1 }, reading))
      return { dates: days, windows: [] };
    const isWeekly = comesWithin(start, { weeks: 1 }, reading);
    const weekly = isWeekly ? weeklyWindow(rule, start, end, timezone) : undefined;
    if (weekly) return { dates: [], windows: [weekly] };
  }
  byClocksOf(start, component, timezone);
  return { dates: [], windows: [...occurrences(event, end, path, timezone, reading)] };
}

/** Throws for what the library reads otherwise than RFC 5545; a leap day it would move to 1 March. */
function requireReadable(
  rule: InstanceType<typeof ICAL.Recur>,
  { month, day }: InstanceType<typeof ICAL.Time>,
  path: string,
): void {
  if (!['YEARLY', 'MONTHLY', 'WEEKLY', 'DAILY'].includes(rule.freq))
    throw new UnusableCalendar(path, `FREQ=${rule.freq} is more often than a day`);
  const { BYWEEKNO: weeks, BYMONTH: months, BYMONTHDAY: days, ...others } = partsOf(rule);
  if (weeks) throw new UnusableCalendar(path, 'has BYWEEKNO: write it by days or weeks');
  if (rule.freq !== 'YEARLY') return;
  if (days && !months)
    throw new UnusableCalendar(path, 'has BYMONTHDAY and no BYMONTH: say which months');
  const isPlain = !months && Object.keys(others).length === 0;
  if (!isPlain || month !== 2 || day !== 29) return;
  rule.setComponent('BYMONTH', [2]);
  rule.setComponent('BYMONTHDAY', [29]);
}

/** By UTC, by the zone that it names, or by that of the reader. */
function zoneOf(
  component: InstanceType<typeof ICAL.Component>,
  name: 'dtstart' | 'dtend',
  path: string,
  { timezone }: Reading,
): string {
  const property = component.getFirstProperty(name)!;
  const value = property.getFirstValue() as InstanceType<typeof ICAL.Time>;
  if (value.isDate) return timezone;
  if (isUtc(value)) return 'UTC';
  const named = property.getParameter('tzid');
  if (named === undefined) return timezone;
  try {
    return Temporal.Now.zonedDateTimeISO(String(named)).timeZoneId;
  } catch {
    throw new UnusableCalendar(
      `${path}/${name.toUpperCase()}`,
      `names the zone ${String(named)}, which is no IANA zone`,
    );
  }
}

const isUtc = ({ zone }: InstanceType<typeof ICAL.Time>): boolean =>
  zone === ICAL.Timezone.utcTimezone;

/** By the clocks of the zone, whose zone it need not name itself. A minute that it ends in is its last. */
function endOf(
  { component, endDate: end }: InstanceType<typeof ICAL.Event>,
  timezone: string,
  path: string,
  reading: Reading,
): Temporal.PlainDateTime {
  const own = component.hasProperty('dtend') ? zoneOf(component, 'dtend', path, reading) : timezone;
  const at = plainOf(end).add({ seconds: end.second });
  const here =
    own === timezone ? at : at.toZonedDateTime(own).withTimeZone(timezone).toPlainDateTime();
  return here.round({ smallestUnit: 'minute', roundingMode: 'ceil' });
}

/**
 * The last moment of a rule is told in UTC (RFC 5545, 3.3.10), and what is left out may be. Of a start
 * whose zone the calendar only names, the library takes the clocks for those of UTC. A last day beside a
 * start at a time is against the RFC and widely written; the library takes its beginning for the last
 * moment, by which that day would be left out.
 */
function byClocksOf(
  start: InstanceType<typeof ICAL.Time>,
  component: InstanceType<typeof ICAL.Component>,
  timezone: string,
): void {
  const here = (time: InstanceType<typeof ICAL.Time>): InstanceType<typeof ICAL.Time> => {
    if (!isUtc(time) || start.zone !== ICAL.Timezone.localTimezone) return time;
    const at = plainOf(time).add({ seconds: time.second });
    const wall = at.toZonedDateTime('UTC').withTimeZone(timezone).toPlainDateTime();
    return ICAL.Time.fromDateTimeString(wall.toString({ smallestUnit: 'second' }));
  };
  const rule = component.getFirstPropertyValue('rrule') as InstanceType<typeof ICAL.Recur> | null;
  if (rule?.until) rule.until = here(rule.until);
  if (rule?.until?.isDate && !start.isDate) {
    const { year, month, day } = rule.until;
    const last = { year, month, day, hour: 23, minute: 59, second: 59 };
    rule.until = ICAL.Time.fromData(last, start.zone);
  }
  for (const left of component.getAllProperties('exdate'))
    left.setValues((left.getValues() as InstanceType<typeof ICAL.Time>[]).map(here));
}

/** Whether it has begun, or its next recurrence is its first: else it would freeze too early. */
const comesWithin = (
  start: InstanceType<typeof ICAL.Time>,
  period: Temporal.DurationLike,
  { now, timezone }: Reading,
): boolean =>
  Temporal.PlainDate.compare(
    plainOf(start).toPlainDate().subtract(period),
    now.toZonedDateTimeISO(timezone).toPlainDate(),
  ) < 0;

const isEndless = ({ interval, count, until }: InstanceType<typeof ICAL.Recur>): boolean =>
  interval === 1 && count === null && until === null;

type Parts = Readonly<Record<string, readonly (string | number)[]>>;
const partsOf = (rule: InstanceType<typeof ICAL.Recur>): Parts => rule.parts as Parts;

/** 29 February is not: no rule of a year skips the years that have none. */
function isSameDayEachYear(
  rule: InstanceType<typeof ICAL.Recur>,
  start: InstanceType<typeof ICAL.Time>,
): boolean {
  if (rule.freq !== 'YEARLY' || (start.month === 2 && start.day === 29)) return false;
  const own: Parts = { BYMONTH: [start.month], BYMONTHDAY: [start.day] };
  return Object.entries(partsOf(rule)).every(
    ([name, values]) => JSON.stringify(own[name]) === JSON.stringify(values),
  );
}

const plainOf = (time: InstanceType<typeof ICAL.Time>): Temporal.PlainDateTime =>
  new Temporal.PlainDateTime(time.year, time.month, time.day, time.hour, time.minute);

function daysOf(start: Temporal.PlainDateTime, end: Temporal.PlainDateTime): string[] {
  const last = end.toPlainDate();
  const days: string[] = [];
  let day = start.toPlainDate();
  while (Temporal.PlainDate.compare(day, last) < 0 && days.length < 366) {
    days.push(day.toString().slice(5));
    day = day.add({ days: 1 });
  }
  return days;
}

/** From where on the days that follow are others in a leap year. */
const isAtLeapDay = (day: string, index: number): boolean =>
  day === '02-29' || (day === '03-01' && index > 0);

const dayNames: Readonly<Record<string, (typeof weekdays)[number]>> = {
  MO: 'mon',
  TU: 'tue',
  WE: 'wed',
  TH: 'thu',
  FR: 'fri',
  SA: 'sat',
  SU: 'sun',
};

/** Undefined where it lasts longer than a day, or is no plain week. */
function weeklyWindow(
  rule: InstanceType<typeof ICAL.Recur>,
  start: InstanceType<typeof ICAL.Time>,
  until: Temporal.PlainDateTime,
  timezone: string,
): FreezeWindow | undefined {
  const { BYDAY: byDay = [], ...others } = partsOf(rule);
  if (rule.freq !== 'WEEKLY' || Object.keys(others).length > 0) return undefined;
  const from = plainOf(start);
  if (from.until(until).total('days') > 1) return undefined;
  const named = byDay.map((name) => dayNames[name]);
  const days = byDay.length > 0 ? named : [weekdays[from.dayOfWeek - 1]];
  if (days.includes(undefined)) return undefined;
  const time = (at: Temporal.PlainDateTime): string => at.toString().slice(11, 16);
  return {
    days: weekdays.filter((day) => days.includes(day)),
    start: time(from),
    end: time(until),
    timezone,
  };
}

/** Those that are not over, until some years from now. */
function* occurrences(
  event: InstanceType<typeof ICAL.Event>,
  end: Temporal.PlainDateTime,
  path: string,
  timezone: string,
  { now }: Reading,
): Generator<FreezeWindow> {
  const today = now.toZonedDateTimeISO(timezone).toPlainDateTime();
  const last = event.isRecurring() ? today.add({ years: yearsAhead }) : undefined;
  const length = plainOf(event.startDate).until(end);
  const iterator = event.iterator();
  for (let count = 0; ; count += 1) {
    const next = iterator.next() as InstanceType<typeof ICAL.Time> | undefined;
    if (!next) return;
    if (count === mostOccurrences)
      throw new UnusableCalendar(
        `${path}/RRULE`,
        `has more than ${mostOccurrences} recurrences until then`,
      );
    const from = plainOf(next);
    if (last && Temporal.PlainDateTime.compare(from, last) > 0) return;
    const until = from.add(length);
    if (Temporal.PlainDateTime.compare(until, today) <= 0) continue;
    const minute = (at: Temporal.PlainDateTime): string => at.toString().slice(0, 16);
    yield { from: minute(from), until: minute(until), timezone };
  }
}
