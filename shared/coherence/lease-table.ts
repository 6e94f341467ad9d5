/**
 * Which caching leases may still be good, judged by nobody's clock but this process's own, which
 * does not jump. Used by every node that commits.
 *
 * | Part            | Protects against                                        | Bounded by, degrades to                        |
 * |-----------------|---------------------------------------------------------|------------------------------------------------|
 * | unknown is good | ending a lease that this process has only just seen     | a write waits, at most the holder's T          |
 * | unchanged for T | clocks that differ or jump: only reads of the table are compared | as above                              |
 * | T of the holder | nodes with different COHERENCE_FENCE_MS                 | a write waits for the longest                  |
 */
import type { Lease } from './feed.ts';

interface Observation {
  readonly token: string;
  readonly fenceMs: number;
  /** When the read ended that first showed the token: the poll that made it had begun before. */
  readonly since: number;
}

/** Rows that have not changed for this long are removed. */
const forgottenAfterMs = 15 * 60_000;

export class LeaseTable {
  #observed = new Map<string, Observation>();

  /**
   * Takes in a read of the whole table. `began` and `ended` are when the read did, in milliseconds
   * of performance.now(). Returns the leases that may still be good. A lease is over where a read
   * that began T or more after its token was first seen still shows that token: if its holder polls
   * now, that poll reads every change that was committed before this read began.
   */
  observe(leases: readonly Lease[], began: number, ended: number): readonly Lease[] {
    const before = this.#observed;
    this.#observed = new Map(
      leases.map(({ holder, token, fenceMs }) => {
        const known = before.get(holder);
        const isUnchanged = known?.token === token;
        return [holder, isUnchanged ? known : { token, fenceMs, since: ended }];
      }),
    );
    return leases.filter(({ holder, fenceMs }) => {
      const { since } = this.#observed.get(holder)!;
      return began - since < fenceMs;
    });
  }

  /** The longest T of any holder that was in the table at the last read. */
  longestFenceMs(): number {
    const all = [...this.#observed.values()].map(({ fenceMs }) => fenceMs);
    return Math.max(0, ...all);
  }

  /** Leases whose rows nobody needs any more. */
  forgotten(now: number): Pick<Lease, 'holder' | 'token'>[] {
    return [...this.#observed]
      .filter(([, { since }]) => now - since > forgottenAfterMs)
      .map(([holder, { token }]) => ({ holder, token }));
  }
}
