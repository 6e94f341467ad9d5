/**
 * What verifying one chain takes of a node. A chunk of it goes as fast as it can; whoever asks again
 * and again is given about a fifth of the node's time, and slows nobody else down. It is counted in
 * bytes, so that a busy node does not take longer work for more of it.
 */
import { LRUCache } from 'lru-cache';
import { setTimeout as delay } from 'node:timers/promises';

/** Bytes that a chain has not rested for, at a time by performance.now(). */
interface Owed {
  readonly bytes: number;
  readonly at: number;
}

/** A core verifies some eight megabytes in a second. */
const bytesPerMs = (1.6 * 1024 * 1024) / 1000;
/** A page of few events costs its statements. */
const leastBytes = 16 * 1024;

export class VerificationShare {
  readonly #mostOwed: number;
  /** Whoever was verified longest ago is forgotten, and has rested. */
  readonly #owed = new LRUCache<string, Owed>({ max: 1000 });

  /** `mostOwed` bytes are verified without a rest. */
  constructor(mostOwed: number) {
    this.#mostOwed = mostOwed;
  }

  /** Resolves to the milliseconds that it waited, when the chain may be worked on again. */
  async rest(chain: string, verified: number): Promise<number> {
    const now = performance.now();
    const { bytes, at } = this.#owed.get(chain) ?? { bytes: 0, at: now };
    const rested = Math.max(0, bytes - (now - at) * bytesPerMs);
    const owed = rested + Math.max(verified, leastBytes);
    this.#owed.set(chain, { bytes: owed, at: now });
    const waits = (owed - this.#mostOwed) / bytesPerMs;
    if (waits <= 0) return 0;
    await delay(waits);
    return waits;
  }
}
