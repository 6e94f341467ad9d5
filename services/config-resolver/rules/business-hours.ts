/** Whether an instant is within business hours, and when they open next. */
import { lastingStretch } from '../../../shared/budgets/windows.ts';
import type { BusinessHours } from '../../../shared/contracts/weekly-hours.ts';

/** Null within business hours; outside of them when they open next. `at` in Unix milliseconds. */
export function opensNext(hours: BusinessHours, at: number): Date | null {
  const { isWithin, until } = lastingStretch(hours, [hours], at);
  return isWithin ? null : new Date(until!);
}
