/** Revisions per scope, and the least of them that an answer must include. */
import { LRUCache } from 'lru-cache';
import { upTo } from '../concurrency/growing-cache.ts';

/**
 * Scope → revision: what an answer includes, or what it must include. A scope that is not named
 * counts as revision 0.
 */
export type AsOf = Readonly<Record<string, number>>;

export const includes = (asOf: AsOf, required: AsOf): boolean => {
  for (const scope in required) if ((asOf[scope] ?? 0) < required[scope]!) return false;
  return true;
};

/** The higher revision of each scope. */
export const highest = (one: AsOf, other: AsOf): AsOf => {
  const result: Record<string, number> = { ...one };
  for (const scope in other) result[scope] = Math.max(result[scope] ?? 0, other[scope]!);
  return result;
};

/** A cache of few entries still remembers this many floors. */
const minCapacity = 10_000;

export interface FloorsOptions {
  readonly ttlMs: number;
  readonly max: number;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
}

/**
 * The floors of one cache: the least revision that an answer must include, per key and scope, or
 * for a whole scope.
 *
 * A floor may be forgotten after `ttlMs`. Floors are compared with answers, not with entries: a
 * drop removes the entry itself, so the only older values left are an answer on its way and an
 * entry in another node's cache. The answer arrives within the request timeout or never. The entry
 * is dropped, or no longer served, one fence time after the commit. So `ttlMs` must be at least the
 * sum of both.
 *
 * Where more than `max` keys change within that time, the oldest floors are forgotten early. Their
 * keys are then protected only by the marking of loads in flight as outdated.
 */
export class Floors {
  readonly #revisions: LRUCache<string, number>;

  constructor({ ttlMs, max, now }: FloorsOptions) {
    this.#revisions = new LRUCache({
      ...upTo(Math.max(max, minCapacity)),
      ttl: ttlMs,
      ttlResolution: 0,
      perf: { now },
    });
  }

  get size(): number {
    return this.#revisions.size;
  }

  clear(): void {
    this.#revisions.clear();
  }

  /**
   * Raises the floor of the key, or of the whole scope where there is none. Returns whether the
   * floor was lower before.
   */
  raise(scope: string, revision: number, key?: string): boolean {
    const name = nameOf(scope, key);
    const before = this.#revisions.get(name) ?? -1;
    if (revision <= before) return false;
    this.#revisions.set(name, revision);
    return true;
  }

  /** What an answer under this key, read with these scopes, must include now. */
  of(key: string, scopes: readonly string[]): AsOf {
    const floors: Record<string, number> = {};
    for (const scope of scopes) {
      const ofScope = this.#revisions.get(nameOf(scope)) ?? 0;
      const ofKey = this.#revisions.get(nameOf(scope, key)) ?? 0;
      const floor = Math.max(ofScope, ofKey);
      if (floor > 0) floors[scope] = floor;
    }
    return floors;
  }
}

/** Unambiguous, since no scope contains a line feed. */
const nameOf = (scope: string, key?: string): string =>
  key === undefined ? scope : `${scope}\n${key}`;
