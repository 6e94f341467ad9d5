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

export const dayMs = 86_400_000;

/**
 * What the clocks of a place show, in the milliseconds that UTC would have at that time: so days of
 * it begin at multiples of `dayMs`.
 */
export type WallTime = number;

/** No clock of this century is changed twice within so long. */
const cellMs = 4 * dayMs;
/** How far clocks are ahead of UTC where a cell begins, in milliseconds, by cell and zone. */
const offsets = new Map<string, number>();
const mostOffsets = 100_000;

/** Temporal takes tens of microseconds for each, and freezes may have a thousand windows. */
function offsetOfCell(cell: number, zone: string): number {
  const key = `${cell} ${zone}`;
  const known = offsets.get(key);
  if (known !== undefined) return known;
  const offset = zonedAt(cell * cellMs, zone).offsetNanoseconds / 1e6;
  if (offsets.size >= mostOffsets) offsets.clear();
  offsets.set(key, offset);
  return offset;
}

/** Undefined where the clocks may be changed between the two. */
function steadyOffset(from: number, until: number, zone: string): number | undefined {
  const first = Math.floor(from / cellMs);
  const offset = offsetOfCell(first, zone);
  for (let cell = first; cell * cellMs <= until; cell += 1)
    if (offsetOfCell(cell + 1, zone) !== offset) return undefined;
  return offset;
}

/** `at` in Unix milliseconds. */
export const wallAt = (at: number, zone: string): WallTime =>
  at + (steadyOffset(at, at, zone) ?? zonedAt(at, zone).offsetNanoseconds / 1e6);

/** Unix milliseconds. */
export function instantOfWall(wall: WallTime, zone: string): number {
  // Clocks are less than a day from UTC, so instants of this time are within a day of it.
  const offset = steadyOffset(wall - dayMs, wall + dayMs, zone);
  if (offset !== undefined) return wall - offset;
  const wanted = Temporal.Instant.fromEpochMilliseconds(wall).toZonedDateTimeISO('UTC');
  return instantOf(wanted.toPlainDateTime(), zone);
}

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
