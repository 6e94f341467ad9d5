/**
 * One cached answer, and what decides whether it may be served. Kept by CoherentCache, served by
 * the gateway and the middleware.
 */
import type { AsOf } from './floors.ts';

/** An answer as its owner gave it. */
export interface Loaded<T> {
  readonly value: T;
  /** The revisions that the value is known to include. */
  readonly asOf: AsOf;
  /**
   * The parameters it was loaded with. They were found valid, so a request with equal ones needs no
   * second check.
   */
  readonly params?: Readonly<Record<string, unknown>>;
  /** The owner cannot tell whether its rows are the newest: it is not cached. */
  readonly stale?: true;
}

/**
 * A cached answer. Whoever needs the same answer at every request keeps the entry itself, which
 * saves building and looking up its key. Ask `isFresh` before each use of the value, and call
 * `recordHit` when it is served.
 */
export interface CachedEntry<T> extends Loaded<T> {
  /**
   * Whether it may be served at `now` (performance.now()): it is in the cache and not expired, no
   * newer revision is known, and this node holds its lease.
   */
  isFresh(now: number): boolean;
  /** Counts a hit, and puts eviction off, since the entry was used now. */
  recordHit(): void;
}

/**
 * A revision scope, such as `tenant:<id>`, as the entries of one cache share it: dropping the scope
 * is one assignment, however many entries were read with it. Lives as long as entries refer to it,
 * because an entry may be looked up long after its scope was dropped.
 */
export interface RevisionScope {
  readonly name: string;
  /** Entries that were read at a lower revision count as dropped. */
  droppedBelow: number;
  entryCount: number;
}

/** A scope that an entry was read with, and the revision it had then. */
export interface ScopeRevision {
  readonly scope: RevisionScope;
  readonly revision: number;
}

/** What an entry needs from the cache that keeps it. */
export interface EntryKeeper {
  readonly hasLease: (now: number) => boolean;
  readonly recordHit: (entry: Entry) => void;
}

export class Entry implements CachedEntry<unknown> {
  value: unknown;
  evicted = false;
  readonly key: string;
  readonly asOf: AsOf;
  readonly params: Loaded<unknown>['params'];
  readonly expiresAt: number;
  readonly scopeRevisions: readonly ScopeRevision[];
  readonly #keeper: EntryKeeper;

  constructor(
    key: string,
    { value, asOf, params }: Loaded<unknown>,
    scopeRevisions: readonly ScopeRevision[],
    keeper: EntryKeeper,
    now: number,
    ttlMs: number,
  ) {
    this.key = key;
    this.value = value;
    this.asOf = Object.freeze(asOf);
    this.params = params;
    this.scopeRevisions = scopeRevisions;
    this.#keeper = keeper;
    this.expiresAt = now + ttlMs;
  }

  // Asked at every request, up to three times: no allocation here.
  isFresh(now: number): boolean {
    return !this.evicted && now < this.expiresAt && !this.isDropped() && this.#keeper.hasLease(now);
  }

  recordHit(): void {
    this.#keeper.recordHit(this);
  }

  /** Whether one of its scopes was dropped at a later revision than the entry was read at. */
  isDropped(): boolean {
    for (const { scope, revision } of this.scopeRevisions)
      if (revision < scope.droppedBelow) return true;
    return false;
  }
}

/**
 * Freezes a value, which is JSON, with everything in it: local calls hand out cached values by
 * reference.
 */
export function freeze(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  Object.freeze(value);
  for (const member of Object.values(value)) freeze(member);
}
