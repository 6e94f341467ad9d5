/**
 * Waits between tries: 1 s, doubled each time, each of them ± 50 %, at most 30 s, from the
 * beginning again after 60 s without a failure.
 */
import { now, pause, sinceMs, type Instant } from './clock.ts';

/** With 50 % on top it is 30 s. */
const longestMs = 20_000;
const wellMs = 60_000;

export class Backoff {
  #failures = 0;
  #wellSince: Instant | undefined;
  /** Of the first wait, before chance changes it. A server may ask for another. */
  firstMs: number;

  constructor(firstMs = 1000) {
    this.firstMs = firstMs;
  }

  succeeded(): void {
    this.#wellSince ??= now();
  }

  /**
   * The next wait in milliseconds, and not before `retryAfterMs`. What is told the same time does
   * not come back at the same moment.
   */
  next(retryAfterMs = 0): number {
    if (this.#wellSince && sinceMs(this.#wellSince) >= wellMs) this.#failures = 0;
    this.#wellSince = undefined;
    const meanMs = Math.min(this.firstMs * 2 ** this.#failures, longestMs);
    this.#failures += 1;
    return Math.max(spread(meanMs, 0.5), retryAfterMs * (1 + Math.random() / 2));
  }

  /** A signal ends the wait early. */
  wait(signal: AbortSignal, retryAfterMs?: number): Promise<void> {
    return pause(this.next(retryAfterMs), signal);
  }
}

/** A time that is longer or shorter by up to this share, by chance. */
export const spread = (ms: number, share: number): number =>
  ms * (1 - share + 2 * share * Math.random());
