/**
 * Windows of a freeze: dated, weekly, or yearly, by the clocks of a zone. Times in Unix
 * milliseconds, ends exclusive.
 */
import type { Freeze, FreezeWindow } from '../contracts/freezes.ts';
import { weekdays } from '../contracts/weekdays.ts';
import { isDate } from '../schema/moment.ts';
import { dayMs, instantOfWall, wallAt, type WallTime } from './wall-clock.ts';

/** What a moment is to a window: within it or not, and until when; null where that never changes. */
export interface Stretch {
  readonly isWithin: boolean;
  readonly until: number | null;
}
/** The same of several, which may follow each other for longer than is looked at. */
export interface StretchOfAll extends Stretch {
  /** Where no end of it was found: it lasts at least until then. */
  readonly lookedUntil?: number;
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
export const spanOf = ({ from, until, timezone }: FreezeWindow): { from: number; until: number } =>
  instantsOf({ from: Date.parse(`${from!}Z`), until: Date.parse(`${until!}Z`) }, timezone);

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

/** Windows that follow each other for longer have no end. */
const longestMs = 2 * 366 * dayMs;
/** Windows that follow each other are looked at so often again: each look costs up to 0.1 ms. */
const mostLooks = 200;

/** What a moment is to all of the windows together. */
export function stretchOfAll(during: readonly FreezeWindow[], at: number): StretchOfAll {
  const stretches = during.map((window) => stretchAt(window, at));
  const ends = stretches.flatMap(({ isWithin, until }) => (isWithin ? [until!] : []));
  if (ends.length === 0) {
    const next = stretches.flatMap(({ until }) => until ?? []);
    return { isWithin: false, until: next.length > 0 ? Math.min(...next) : null };
  }
  let end = Math.max(...ends);
  let looks = 0;
  for (let index = 0; index < during.length && looks < mostLooks; index += 1) {
    const known = stretches[index]!;
    if (known.until !== null && known.until <= end) {
      stretches[index] = stretchAt(during[index]!, end);
      looks += 1;
    }
    const { isWithin, until } = stretches[index]!;
    if (!isWithin || until! <= end) continue;
    end = until!;
    if (end - at > longestMs) return { isWithin: true, until: null, lookedUntil: end };
    // Another one may reach further from here: of most it is known already.
    index = -1;
  }
  if (looks === mostLooks) return { isWithin: true, until: null, lookedUntil: end };
  return { isWithin: true, until: end };
}

/** By what the windows are of: the stretch that was asked for last. */
const lastStretches = new WeakMap<object, StretchOfAll & { readonly from: number }>();

/** The same. Cached configuration is frozen, so the object `of` stands for its windows. */
export function lastingStretch(of: object, during: readonly FreezeWindow[], at: number): Stretch {
  const last = lastStretches.get(of);
  const lasts = last && last.from <= at && at < (last.lookedUntil ?? last.until ?? Infinity);
  if (lasts) return last;
  const stretch = { from: at, ...stretchOfAll(during, at) };
  lastStretches.set(of, stretch);
  return stretch;
}

/** Parts of the span in which a freeze holds, overrides aside. */
export function frozenWithin(
  { during, only_within: isOnly = false }: Pick<Freeze, 'during' | 'only_within'>,
  { from, until: end }: Span,
): Span[] {
  const frozen: Span[] = [];
  for (let at = from; at < end;) {
    const { isWithin, until, lookedUntil = until } = stretchOfAll(during, at);
    const last = Math.min(lookedUntil ?? end, end);
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

/** By the clocks of a zone. */
interface WallSpan {
  readonly from: WallTime;
  readonly until: WallTime;
}

const instantsOf = ({ from, until }: WallSpan, zone: string): Span => ({
  from: instantOfWall(from, zone),
  until: instantOfWall(until, zone),
});

/** Those that follow each other without a gap as one, so that only its ends are looked up. */
function* joined(spans: Iterable<WallSpan>, zone: string): Generator<Span> {
  let last: WallSpan | undefined;
  for (const span of spans) {
    const follows = last !== undefined && span.from <= last.until;
    if (last !== undefined && !follows) yield instantsOf(last, zone);
    last = follows ? { from: last!.from, until: Math.max(last!.until, span.until) } : span;
  }
  if (last !== undefined) yield instantsOf(last, zone);
}

/** The fifth of five weeks apart; one that a month does not have is the next month's. */
const ordinals = { first: 1, second: 2, third: 3, fourth: 4 } as const;
/** Each ordinal comes once a month, and a second month in case the calendar leaves one out. */
const longestSearchDays = 70;

const weeklySpans = (window: FreezeWindow, at: number): Generator<Span> =>
  joined(weeklyWallSpans(window, wallAt(at, window.timezone)), window.timezone);

function* weeklyWallSpans(window: FreezeWindow, now: WallTime): Generator<WallSpan> {
  const { days, start, end, of_month: wanted } = window;
  const today = Math.floor(now / dayMs);
  const [from, until] = [timeOfDay(start!), timeOfDay(end!)];
  const length = until > from ? until - from : until + dayMs - from;
  // Yesterday's may last until today.
  for (let day = today - 1; day < today + longestSearchDays; day += 1) {
    if (!days!.includes(dayOfWeek(day)) || !isOfMonth(day, wanted)) continue;
    yield { from: day * dayMs + from, until: day * dayMs + from + length };
  }
}

/** Of HH:MM, in milliseconds from midnight. */
const timeOfDay = (text: string): number => Date.parse(`1970-01-01T${text}Z`);
/** 1 January 1970 was a Thursday, the fourth of `weekdays`. */
const dayOfWeek = (day: number): (typeof weekdays)[number] => weekdays[(((day + 3) % 7) + 7) % 7]!;

function isOfMonth(day: number, wanted: FreezeWindow['of_month']): boolean {
  if (wanted === undefined) return true;
  const date = new Date(day * dayMs);
  const dayOfMonth = date.getUTCDate();
  const daysInMonth = new Date(
    Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0),
  ).getUTCDate();
  return wanted.some((ordinal) =>
    ordinal === 'last'
      ? dayOfMonth + 7 > daysInMonth
      : Math.ceil(dayOfMonth / 7) === ordinals[ordinal],
  );
}

/** 29 February is at most eight years away. */
const longestSearchYears = 9;

const yearlySpans = (window: FreezeWindow, at: number): Generator<Span> =>
  joined(yearlyWallSpans(window, wallAt(at, window.timezone)), window.timezone);

function* yearlyWallSpans({ dates }: FreezeWindow, now: WallTime): Generator<WallSpan> {
  const days = dates!.toSorted().map((text) => text.split('-').map(Number));
  // Yesterday's may last until today.
  const first = (Math.floor(now / dayMs) - 1) * dayMs;
  const firstYear = new Date(first).getUTCFullYear();
  for (let year = firstYear; year < firstYear + longestSearchYears; year += 1) {
    for (const [month, day] of days) {
      const from = Date.UTC(year, month! - 1, day);
      if (from >= first && new Date(from).getUTCDate() === day) yield { from, until: from + dayMs };
    }
  }
}

/** Whether some year has the day. */
export const isDayOfYear = (text: string): boolean => isDate(`2024-${text}`);

/** Whether the calendar has the date of a local time. */
export const isLocalTime = (text: string): boolean => isDate(text.slice(0, 10));
