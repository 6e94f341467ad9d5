/** Waits for conditions, for tests that must not go by times. */
import { setTimeout as delay } from 'node:timers/promises';

/** Between two tries: most of what is waited for is there within a few milliseconds. */
const [firstPauseMs, longestPauseMs] = [10, 100];

/**
 * Tries again until it succeeds, since nodes find each other within seconds; throws the last error
 * once the time is over.
 */
export async function eventually<T>(work: () => Promise<T>, withinMs = 30_000): Promise<T> {
  const until = Date.now() + withinMs;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    try {
      return await work();
    } catch (error) {
      if (Date.now() > until) throw error;
      await delay(pauseMs);
    }
  }
}
