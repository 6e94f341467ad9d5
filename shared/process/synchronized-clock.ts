/**
 * The time by the database's clock, as far as this process knows it. What ends at a time ends on all
 * nodes together: clocks of nodes differ, and the times that rows hold are the database's. Before
 * the first poll of the change feed is answered it is this node's own clock.
 */

/** The database's clock minus this node's, in milliseconds. */
let aheadMs = 0;

/** In milliseconds since 1970. */
export const synchronizedNow = (): number => Date.now() + aheadMs;

/**
 * The database said that it was `at`, between `asked` and `answered` by this node's clock. What is
 * known already stays where that allows it: it may be more exact than the time of a round trip.
 */
export function synchronizeClock(at: number, asked: number, answered: number): void {
  aheadMs = Math.min(Math.max(aheadMs, at - answered), at - asked);
}
