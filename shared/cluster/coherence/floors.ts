import { LRUCache } from 'lru-cache';

/** Scope → revision. */
export type AsOf = Readonly<Record<string, number>>;

/** A scope that `asOf` does not name counts as revision 0. */
export const includes = (asOf: AsOf, least: AsOf): boolean => {
  for (const scope in least) if ((asOf[scope] ?? 0) < least[scope]!) return false;
  return true;
};

const leastMax = 10_000;

/**
 * The least revision that an answer must include, per key and scope, or per whole scope.
 *
 * A floor may be forgotten after `ttlMs`. It judges answers, not entries: a drop removes what is kept, so the only older value
 * left is one in flight or one in another node's cache. The first arrives within the request timeout or never. The second is
 * dropped, or no longer served, one fence time after the commit. So `ttlMs` is at least the sum of both.
 * Where more than `max` keys change within that time, the oldest floors go early, and disowning alone guards their keys.
 */
export class Floors {
  readonly #revisions: LRUCache<string, number>;

  constructor({
    ttlMs,
    max,
    now,
  }: {
    readonly ttlMs: number;
    readonly max: number;
    readonly now: () => number;
  }) {
    this.#revisions = new LRUCache({
      max: Math.max(max, leastMax),
      ttl: ttlMs,
      ttlResolution: 0,
      perf: { now },
    });
  }

  get size(): number {
    return this.#revisions.size;
  }

  /** Without a key, for the whole scope. False where the floor was as high already. */
  raise(scope: string, revision: number, key?: string): boolean {
    const name = nameOf(scope, key);
    if (revision <= (this.#revisions.get(name) ?? -1)) return false;
    this.#revisions.set(name, revision);
    return true;
  }

  of(key: string, scopes: readonly string[]): AsOf {
    const floors: Record<string, number> = {};
    for (const scope of scopes) {
      const floor = Math.max(
        this.#revisions.get(nameOf(scope)) ?? 0,
        this.#revisions.get(nameOf(scope, key)) ?? 0,
      );
      if (floor > 0) floors[scope] = floor;
    }
    return floors;
  }
}

/** Unambiguous, since no scope holds a line feed. */
const nameOf = (scope: string, key?: string): string =>
  key === undefined ? scope : `${scope}\n${key}`;
