/**
 * Windows of a freeze: dated, weekly, or yearly, by the clocks of a zone. Times in Unix
 * milliseconds, ends exclusive.
 */
import { Temporal } from 'temporal-polyfill';
import type { Freeze, FreezeWindow } from '../contracts/freezes.ts';
import { weekdays } from '../contracts/weekdays.ts';
import { dateAt, instantOf } from './wall-clock.ts';

/** What a moment is to a window: within it or not, and until when; null where that never changes. */
export interface Stretch {
  readonly isWithin: boolean;
  readonly until: number | null;
}

const fieldsOfKind = {
  dated: ['from', 'until'],
  weekly: ['days', 'start', 'end'],
  yearly: ['dates'],
} as const;
export type WindowKind = keyof typeof fieldsOfKind;

/** Undefined where its fields are those of no kind, or of several. */
export function kindOf(window: FreezeWindow): WindowKind | undefined {
  const named = Object.keys(window).filter((field) => field !== 'timezone' && field !== 'of_month');
  const kinds = Object.entries(fieldsOfKind).flatMap(([kind, fields]) =>
    named.length === fields.length && fields.every((field) => named.includes(field))
      ? [kind as WindowKind]
      : [],
  );
  const [kind] = kinds;
  return window.of_month !== undefined && kind !== 'weekly' ? undefined : kind;
}

/** Unix milliseconds from when until when a dated window lasts. */
export function spanOf({ from, until, timezone }: FreezeWindow): { from: number; until: number } {
  return {
    from: instantOf(Temporal.PlainDateTime.from(from!), timezone),
    until: instantOf(Temporal.PlainDateTime.from(until!), timezone),
  };
}

/** The stretch that `at` is in. */
export function stretchAt(window: FreezeWindow, at: number): Stretch {
  switch (kindOf(window)) {
    case 'dated':
      return stretchOf([spanOf(window)], at);
    case 'weekly':
      return stretchOf(weeklySpans(window, at), at);
    case 'yearly':
      return stretchOf(yearlySpans(window, at), at);
    default:
      throw new Error(`${JSON.stringify(window)} is no window`);
  }
}

export interface Span {
  readonly from: number;
  readonly until: number;
}

/** Windows that follow each other, one after the other, are looked at so often. */
const mostWindowsInRow = 100;

/** What a moment is to all of the windows together. */
export function stretchOfAll(during: readonly FreezeWindow[], at: number): Stretch {
  let end: number | null = null;
  let now = at;
  for (let count = 0; count < mostWindowsInRow; count += 1) {
    const stretches = during.map((window) => stretchAt(window, now));
    const within = stretches.flatMap(({ isWithin, until }) => (isWithin ? [until!] : []));
    if (within.length === 0) {
      if (end !== null) break;
      const next = stretches.flatMap(({ until }) => until ?? []);
      return { isWithin: false, until: next.length > 0 ? Math.min(...next) : null };
    }
    end = Math.max(...within);
    now = end;
  }
  return { isWithin: true, until: end };
}

/** Parts of the span in which a freeze holds, overrides aside. */
export function frozenWithin(
  { during, only_within: isOnly = false }: Pick<Freeze, 'during' | 'only_within'>,
  { from, until: end }: Span,
): Span[] {
  const frozen: Span[] = [];
  for (let at = from; at < end;) {
    const { isWithin, until } = stretchOfAll(during, at);
    const last = Math.min(until ?? end, end);
    if (isWithin !== isOnly) frozen.push({ from: at, until: last });
    at = last;
  }
  return frozen;
}

/** Of spans in order, of which only those that are over by `at` may be left out. */
function stretchOf(spans: Iterable<Span>, at: number): Stretch {
  let within: number | undefined;
  for (const { from, until } of spans) {
    if (until <= from || until <= at) continue;
    if (from > (within ?? at))
      return within === undefined
        ? { isWithin: false, until: from }
        : { isWithin: true, until: within };
    // Spans that follow each other without a gap are one.
    within = Math.max(within ?? until, until);
  }
  return { isWithin: within !== undefined, until: within ?? null };
}

/** The fifth of five weeks apart; one that a month does not have is the next month's. */
const ordinals = { first: 1, second: 2, third: 3, fourth: 4 } as const;
/** Each ordinal comes once a month, and a second month in case the calendar leaves one out. */
const longestSearchDays = 70;

function* weeklySpans(window: FreezeWindow, at: number): Generator<Span> {
  const { timezone, days, start, end, of_month: wanted } = window;
  const today = dateAt(at, timezone);
  const isNextDay = end! <= start!;
  // Yesterday's may last until today.
  for (let day = -1; day < longestSearchDays; day += 1) {
    const date = today.add({ days: day });
    if (!days!.includes(weekdays[date.dayOfWeek - 1]!) || !isOfMonth(date, wanted)) continue;
    const lastDate = isNextDay ? date.add({ days: 1 }) : date;
    yield {
      from: instantOf(date.toPlainDateTime(Temporal.PlainTime.from(start!)), timezone),
      until: instantOf(lastDate.toPlainDateTime(Temporal.PlainTime.from(end!)), timezone),
    };
  }
}

function isOfMonth(date: Temporal.PlainDate, wanted: FreezeWindow['of_month']): boolean {
  if (wanted === undefined) return true;
  return wanted.some((ordinal) =>
    ordinal === 'last'
      ? date.day + 7 > date.daysInMonth
      : Math.ceil(date.day / 7) === ordinals[ordinal],
  );
}

/** 29 February is at most eight years away. */
const longestSearchYears = 9;

function* yearlySpans({ timezone, dates }: FreezeWindow, at: number): Generator<Span> {
  const today = dateAt(at, timezone);
  for (let year = today.year - 1; year < today.year + longestSearchYears; year += 1) {
    for (const text of dates!.toSorted()) {
      const [month, day] = text.split('-').map(Number);
      const date = Temporal.PlainDate.from({ year, month: month!, day: day! });
      if (date.day !== day) continue;
      yield {
        from: instantOf(date.toPlainDateTime(), timezone),
        until: instantOf(date.add({ days: 1 }).toPlainDateTime(), timezone),
      };
    }
  }
}

/** Whether some year has the day. */
export const isDayOfYear = (text: string): boolean => {
  const [month, day] = text.split('-').map(Number);
  return Temporal.PlainDate.from({ year: 2024, month: month!, day: day! }).day === day;
};

/** Whether the calendar has the date of a local time. */
export function isLocalTime(text: string): boolean {
  const [year, month, day] = text.slice(0, 10).split('-').map(Number);
  return Temporal.PlainDate.from({ year: year!, month: month!, day: day! }).day === day;
}
