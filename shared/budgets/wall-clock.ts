/**
 * Instants of times on a place's own clock.
 *
 * | The clocks                       | A start or end there is              |
 * |----------------------------------|--------------------------------------|
 * | go forward: the time never comes | the first instant after the gap      |
 * | go back: the time comes twice    | the first of the two                 |
 *
 * `Temporal` is to be part of JavaScript itself; until Node has it, temporal-polyfill stands in.
 */
import { Temporal } from 'temporal-polyfill';

/** Unix milliseconds of a wall-clock time. */
export function instantOf(wanted: Temporal.PlainDateTime, zone: string): number {
  const found = wanted.toZonedDateTime(zone, { disambiguation: 'earlier' });
  if (found.toPlainDateTime().equals(wanted)) return found.epochMilliseconds;
  // In a gap `earlier` is as long before it as the wanted time is after its beginning: its end is
  // the next transition.
  return found.getTimeZoneTransition('next')!.epochMilliseconds;
}

/** The date that the clocks of the zone show. `at` in Unix milliseconds. */
export const dateAt = (at: number, zone: string): Temporal.PlainDate =>
  zonedAt(at, zone).toPlainDate();

export const zonedAt = (at: number, zone: string): Temporal.ZonedDateTime =>
  Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO(zone);
