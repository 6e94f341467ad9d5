/**
 * What verifying one chain takes of a node. Its first second goes as fast as it can; from then on it
 * works a fifth of the time, so that whoever asks again and again slows nobody else down.
 */
import { LRUCache } from 'lru-cache';
import { setTimeout as delay } from 'node:timers/promises';

/** Milliseconds of work that a chain has not rested for, at a time by performance.now(). */
interface Owed {
  readonly ms: number;
  readonly at: number;
}

const share = 0.2;
const mostOwedMs = 1000;

export class VerificationShare {
  /** Whoever was verified longest ago is forgotten, and has rested. */
  readonly #owed = new LRUCache<string, Owed>({ max: 1000 });

  /** Resolves when the chain may be worked on again after so much work. */
  async rest(chain: string, workedMs: number): Promise<void> {
    const now = performance.now();
    const { ms, at } = this.#owed.get(chain) ?? { ms: 0, at: now };
    const owed = Math.max(0, ms - (now - at) * share) + workedMs;
    this.#owed.set(chain, { ms: owed, at: now });
    if (owed > mostOwedMs) await delay((owed - mostOwedMs) / share);
  }
}
