/**
 * The turns of verifications on this node. Proving a chain takes seconds of processor time and a
 * database connection, and any administrator may ask for it as often as they like.
 *
 * | Danger                             | Bounded by                                                                 |
 * |------------------------------------|----------------------------------------------------------------------------|
 * | many verify one chain              | one run of a chain at a time; all who wait for the same chunk share the next run |
 * | many chunks of one chain           | AUDIT_VERIFICATIONS_WAITING of them wait, a further one is 429             |
 * | many chains                        | `atOnce` run at a time, and chains take turns                              |
 * | those who waited have left         | their chunk is not verified                                                |
 *
 * A run begins after everyone who shares it has asked, so that its snapshot has all that was
 * recorded before.
 */
import { StrataError } from '../../../shared/errors.ts';

export interface Asked {
  /** Of these one runs at a time. */
  readonly chain: string;
  /** Which chunk of it: whoever waits for the same shares a run. */
  readonly chunk: string;
  /** Until when the caller waits, by performance.now(). */
  readonly until: number;
}

interface Waiting<T> {
  readonly work: () => Promise<T>;
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
  /** Until when the most patient caller waits. */
  until: number;
}

export class Verifications<T> {
  readonly #atOnce: number;
  readonly #mostWaiting: () => number;
  /** By chain, in the order of their turns; what waits of each by chunk. */
  readonly #chains = new Map<string, Map<string, Waiting<T>>>();
  readonly #running = new Set<string>();

  constructor(atOnce: number, mostWaiting: () => number) {
    this.#atOnce = atOnce;
    this.#mostWaiting = mostWaiting;
  }

  /** Throws `rate_limited` where too many chunks of the chain wait. */
  async run({ chain, chunk, until }: Asked, work: () => Promise<T>): Promise<T> {
    const waiting = this.#chains.get(chain) ?? new Map<string, Waiting<T>>();
    const known = waiting.get(chunk);
    if (known) {
      known.until = Math.max(known.until, until);
      return known.promise;
    }
    const most = this.#mostWaiting();
    if (waiting.size >= most)
      throw new StrataError(
        'rate_limited',
        `Of this chain ${most} verifications wait already (AUDIT_VERIFICATIONS_WAITING). Try again in a second.`,
        { headers: { 'retry-after': '1' } },
      );
    const asked = { work, until, ...Promise.withResolvers<T>() };
    waiting.set(chunk, asked);
    this.#chains.set(chain, waiting);
    this.#startDue();
    return asked.promise;
  }

  #startDue(): void {
    for (const [chain, waiting] of this.#chains) {
      if (this.#running.size >= this.#atOnce) return;
      if (this.#running.has(chain)) continue;
      // Behind the others, where it asks for another turn.
      this.#chains.delete(chain);
      const [chunk, next] = waiting.entries().next().value!;
      waiting.delete(chunk);
      if (waiting.size > 0) this.#chains.set(chain, waiting);
      void this.#take(chain, next);
    }
  }

  async #take(chain: string, { work, until, resolve, reject }: Waiting<T>): Promise<void> {
    this.#running.add(chain);
    try {
      if (until <= performance.now()) throw new StrataError('timeout');
      resolve(await work());
    } catch (error) {
      reject(error);
    } finally {
      this.#running.delete(chain);
      this.#startDue();
    }
  }
}
