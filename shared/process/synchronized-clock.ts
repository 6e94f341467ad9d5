/**
 * The time by the database's clock, as far as this process knows it. What ends at a time ends on all
 * nodes together: clocks of nodes differ, and the times that rows hold are the database's.
 *
 * | Where                                | The time is                                               |
 * |--------------------------------------|-----------------------------------------------------------|
 * | no poll of the feed is answered yet  | by this node's own clock                                  |
 * | this node's own clock is set         | the database's again with the next poll                   |
 * | the database's clock jumps           | as it was, and the database's once that has lasted a minute |
 */
import { performance } from 'node:perf_hooks';

/** By less than this clocks are set without anybody calling it a jump, in milliseconds. */
const jumpMs = 1000;
const settledMs = 60_000;

/** The database's clock minus this node's, in milliseconds. */
let aheadMs = 0;
/** This node's clock minus its monotonic one when `aheadMs` was found; undefined before. */
let ownDifference: number | undefined;
/** Since when the database's clock has been another one, by performance.now(). */
let jumpedAt: number | undefined;

/** In whole milliseconds since 1970, which calendars need: the database counts parts of them. */
export const synchronizedNow = (): number => Math.floor(Date.now() + aheadMs);

/**
 * As `synchronizedNow`; undefined where no poll is answered yet, or this node's own clock was set
 * since. Two nodes that know it agree to within the time that a poll takes.
 */
export function knownNow(): number | undefined {
  return isOwnSet(Date.now(), performance.now()) ? undefined : synchronizedNow();
}

const isOwnSet = (wall: number, monotonic: number): boolean =>
  ownDifference === undefined || Math.abs(wall - monotonic - ownDifference) > jumpMs;

/**
 * The database said that it was `at`, between `asked` and `answered` by this node's clock, which is
 * now. What is known already stays where that allows it: it may be more exact than the time of a
 * round trip.
 */
export function synchronizeClock(at: number, asked: number, answered: number): void {
  const now = performance.now();
  const found = Math.min(Math.max(aheadMs, at - answered), at - asked);
  const isJump = Math.abs(found - aheadMs) > jumpMs && !isOwnSet(answered, now);
  jumpedAt = isJump ? (jumpedAt ?? now) : undefined;
  if (jumpedAt !== undefined && now - jumpedAt < settledMs) return;
  aheadMs = found;
  ownDifference = answered - now;
}
