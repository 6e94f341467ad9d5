/** The periods of budgets. Times in Unix milliseconds. */
import type { Temporal } from 'temporal-polyfill';
import type { Budget, BudgetPeriod } from '../contracts/budgets.ts';
import { instantOf, zonedAt } from './wall-clock.ts';

/**
 * What is spent is counted in buckets of so long, as time is counted in UTC. Offsets of zones are
 * multiples of it, so periods of every zone begin with a bucket.
 */
export const bucketMs = 5 * 60_000;
export const bucketOf = (at: number): number => Math.floor(at / bucketMs) * bucketMs;

export interface Period {
  /** The first bucket that counts. */
  readonly from: number;
  /** When a calendar period ends, or what is spent now stops counting in a rolling one. */
  readonly resetsAt: number;
}

const hourMs = 3_600_000;
const dayMs = 86_400_000;
const rollingMs: Readonly<Record<BudgetPeriod, number>> = {
  hour: hourMs,
  day: dayMs,
  week: 7 * dayMs,
  month: 30 * dayMs,
};

/**
 * Calendar periods by their kind and zone, each the last that was asked for. Temporal takes a tenth of
 * a millisecond and more for each, and hundreds of budgets are weighed at a time.
 */
const lastPeriods = new Map<string, Period>();
const mostPeriods = 10_000;

/** The period that `at` is in. */
export function periodAt(budget: Pick<Budget, 'per' | 'window' | 'timezone'>, at: number): Period {
  const { per, window = 'calendar', timezone = 'UTC' } = budget;
  if (window === 'rolling') {
    const length = rollingMs[per];
    // A bucket counts until all of it is older than the window.
    return { from: bucketOf(at - length), resetsAt: bucketOf(at) + bucketMs + length };
  }
  const kind = `${per} ${timezone}`;
  const known = lastPeriods.get(kind);
  if (known && known.from <= at && at < known.resetsAt) return known;
  const found = calendarPeriodAt(per, timezone, at);
  if (lastPeriods.size >= mostPeriods) lastPeriods.clear();
  lastPeriods.set(kind, found);
  return found;
}

function calendarPeriodAt(per: BudgetPeriod, timezone: string, at: number): Period {
  const zoned = zonedAt(at, timezone);
  if (per === 'hour') return hourAt(zoned);
  const first = firstDay(zoned.toPlainDate(), per);
  return {
    from: instantOf(first.toPlainDateTime(), timezone),
    resetsAt: instantOf(first.add(lengths[per]).toPlainDateTime(), timezone),
  };
}

/** From full hour to full hour by the clocks, but for an hour in which they change: that is two. */
function hourAt(zoned: Temporal.ZonedDateTime): Period {
  const { epochMilliseconds: at, timeZoneId: zone, offsetNanoseconds } = zoned;
  const from =
    Math.floor((at + offsetNanoseconds / 1e6) / hourMs) * hourMs - offsetNanoseconds / 1e6;
  const isSame = [from, from + hourMs - 1].every(
    (each) => zonedAt(each, zone).offsetNanoseconds === offsetNanoseconds,
  );
  if (isSame) return { from, resetsAt: from + hourMs };
  const before = zoned.add({ nanoseconds: 1 }).getTimeZoneTransition('previous');
  const next = zoned.getTimeZoneTransition('next');
  return {
    from: Math.max(from, before?.epochMilliseconds ?? -Infinity),
    resetsAt: Math.min(from + hourMs, next?.epochMilliseconds ?? Infinity),
  };
}

const lengths = { day: { days: 1 }, week: { weeks: 1 }, month: { months: 1 } } as const;

function firstDay(date: Temporal.PlainDate, per: keyof typeof lengths): Temporal.PlainDate {
  if (per === 'day') return date;
  return per === 'month' ? date.with({ day: 1 }) : date.subtract({ days: date.dayOfWeek - 1 });
}
