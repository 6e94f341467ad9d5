/** Whether an instant is within business hours, and when they open next. */
import { Temporal } from 'temporal-polyfill';
import { dateAt, instantOf } from '../../../shared/budgets/wall-clock.ts';
import { weekdays } from '../../../shared/contracts/weekdays.ts';
import type { BusinessHours } from '../../../shared/contracts/weekly-hours.ts';

/** From when until when (Unix milliseconds, the end exclusive) it is open, or closed. */
interface Stretch {
  readonly isOpen: boolean;
  readonly from: number;
  readonly until: number;
}

/**
 * The stretch that was asked for last, by hours: cached configuration is frozen, so the object
 * stands for its contents.
 */
const lastStretches = new WeakMap<BusinessHours, Stretch>();

/** Null within business hours; outside of them when they open next. `at` in Unix milliseconds. */
export function opensNext(hours: BusinessHours, at: number): Date | null {
  const known = lastStretches.get(hours);
  const isWithin = known !== undefined && known.from <= at && at < known.until;
  const stretch = isWithin ? known : stretchAt(hours, at);
  if (!isWithin) lastStretches.set(hours, stretch);
  return stretch.isOpen ? null : new Date(stretch.until);
}

/**
 * Hours open on each of their days, so one week has an opening; a second one in case the calendar
 * leaves that day out.
 */
const longestSearchDays = 15;

function stretchAt(hours: BusinessHours, at: number): Stretch {
  const today = dateAt(at, hours.timezone);
  // Yesterday's may last until today.
  for (let day = -1; day < longestSearchDays; day += 1) {
    const date = today.add({ days: day });
    if (!hours.days.includes(weekdays[date.dayOfWeek - 1]!)) continue;
    const from = instantOf(on(date, hours.start), hours.timezone);
    const lastDate = hours.end > hours.start ? date : date.add({ days: 1 });
    const until = instantOf(on(lastDate, hours.end), hours.timezone);
    if (at < from && from < until) return { isOpen: false, from: at, until: from };
    if (from <= at && at < until) return { isOpen: true, from, until };
  }
  throw new Error(`${JSON.stringify(hours)} never open`);
}

const on = (date: Temporal.PlainDate, time: string): Temporal.PlainDateTime =>
  date.toPlainDateTime(Temporal.PlainTime.from(time));
