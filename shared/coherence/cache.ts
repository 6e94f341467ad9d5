/**
 * A node's memory of configuration, which never answers with less than the node knows to be
 * committed.
 *
 * | Part          | Protects against                                    | Bounded by, degrades to                                      |
 * |---------------|-----------------------------------------------------|--------------------------------------------------------------|
 * | drop          | an entry that a committed change made outdated      | exact keys; a repeated change removes nothing newer          |
 * | scope drop    | the same, for everything that was read with a scope | one comparison per hit; memory is freed at the next look-up or by eviction |
 * | outdated load | a load that began before a drop and ends after it   | is not cached; those who already wait for it still get its answer |
 * | floor         | another node answering from before the change       | see floors.ts; asked again 3 times, then service_unavailable |
 * | lease         | serving while this node may have missed changes     | reads go through to the owner; nothing is cached or shared   |
 * | single flight | many readers asking the owner for the same at once  | per key and node; a reader who requires a later revision starts its own load |
 * | owner's rows  | an owner reading from a server that others no longer write to | marked stale by the owner while it has no lease, not cached |
 * | last known    | the owner being away, or slow while the lease is lost | marked stale; only what was never dropped and may still be a fallback, else the error |
 * | size          | running out of memory                               | entries and bytes, eviction of the least recently used       |
 *
 * A lease that ends and is renewed while a load is in flight needs no flag on the load: before the
 * lease counts again, the poll that renews it applies the changes that were missed, and these mark
 * the load as outdated if they concern it.
 */
import { LRUCache } from 'lru-cache';
import { performance } from 'node:perf_hooks';
import { within } from '../concurrency/within.ts';
import { StrataError } from '../errors.ts';
import {
  Entry,
  freeze,
  type CachedEntry,
  type EntryKeeper,
  type Loaded,
  type RevisionScope,
} from './entry.ts';
import { Floors, highest, includes, type AsOf } from './floors.ts';

export interface ReadResult<T> {
  readonly value: T;
  readonly asOf: AsOf;
  readonly hit: boolean;
  /** The last known value, because its owner does not answer. */
  readonly stale: boolean;
}

/**
 * Asks the owner. It receives what the answer must include, since it may have a memory of its own,
 * and may ignore that: an answer that includes less is refused here and asked for again.
 */
export type Load<T> = (minAsOf: AsOf) => Promise<Loaded<T>>;

export interface ReadOptions {
  /** Revisions that the reader requires, beyond the floors. */
  readonly min?: AsOf;
  /** How long the reader waits for a load. */
  readonly waitMs?: number;
}

export interface CacheOptions {
  readonly ttlMs: () => number;
  readonly maxEntries: number;
  readonly maxBytes: number;
  /** At least the request timeout and the fence time together. */
  readonly floorTtlMs: number;
  /** Whether this node's lease on the change feed is valid at `now`. */
  readonly hasLease: (now: number) => boolean;
  /** Called with the revisions of every loaded answer, before anyone gets it. */
  readonly onLoaded?: (asOf: AsOf) => void;
  /** Whether the last known value may be a fallback after this failure of the owner. */
  readonly isOutage: (error: unknown) => boolean;
  /** Whether last known values may be a fallback at `now` at all. Defaults to always. */
  readonly mayServeStale?: (now: number) => boolean;
  /** Milliseconds, monotonic. */
  readonly now?: () => number;
}

interface PendingLoad {
  readonly promise: Promise<Loaded<unknown>>;
  readonly scopes: readonly string[];
  readonly minAsOf: AsOf;
  /**
   * A change or a flush came after it began: its answer is not cached, and nobody else may join it.
   */
  outdated: boolean;
}

const maxRetries = 3;
/**
 * Without a lease every read goes to the owner. Where the owner has not answered after this time, a
 * known value is the fallback.
 */
const ownerPatienceMs = 500;
/** An entry's memory beside its key and value, in bytes. */
const entryOverheadBytes = 200;
/** Memory for each character of a value as JSON, in bytes: about what V8 needs for its objects. */
const bytesPerCharacter = 2;

export class CoherentCache {
  readonly #options: CacheOptions;
  readonly #now: () => number;
  readonly #entries: LRUCache<string, Entry>;
  readonly #scopes = new Map<string, RevisionScope>();
  readonly #floors: Floors;
  readonly #loads = new Map<string, PendingLoad>();
  readonly #keeper: EntryKeeper;
  #resets = 0;
  readonly #counts = {
    hits: 0,
    misses: 0,
    drops: 0,
    outdatedLoads: 0,
    rejectedBelowFloor: 0,
    stale: 0,
    readThrough: 0,
  };

  constructor(options: CacheOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#entries = new LRUCache({
      maxSize: options.maxBytes,
      dispose: (entry) => this.#onRemoved(entry),
    });
    this.#floors = new Floors({
      ttlMs: options.floorTtlMs,
      max: options.maxEntries,
      now: this.#now,
    });
    this.#keeper = {
      hasLease: options.hasLease,
      recordHit: (entry) => this.#recordHit(entry),
    };
  }

  /**
   * The entry under the key, fresh or not. Counts no hit: for those who ask whether it is fresh
   * when they serve it.
   */
  find(key: string): CachedEntry<unknown> | undefined {
    return this.#lookUpEvictingDropped(key);
  }

  /**
   * The entry, if it may be served now and includes `min`; counts as a hit. Synchronous, for the
   * hot path.
   */
  get(key: string, min?: AsOf): CachedEntry<unknown> | undefined {
    const entry = this.#lookUpEvictingDropped(key);
    if (!entry) return undefined;
    if (min && !includes(entry.asOf, min)) return undefined;
    const now = this.#now();
    if (!entry.isFresh(now)) return undefined;
    this.#recordHit(entry);
    return entry;
  }

  /**
   * From memory, else by `load`, whose answer is shared by all who ask meanwhile.
   * Throws what `load` throws, unless that is an outage and a last known value is there;
   * `service_unavailable` where the owner keeps answering from before a known change; `timeout`
   * after `waitMs`.
   */
  async read<T>(
    key: string,
    scopes: readonly string[],
    load: Load<T>,
    { min = {}, waitMs = Infinity }: ReadOptions = {},
  ): Promise<ReadResult<T>> {
    const entry = this.get(key, min);
    if (entry) return { value: entry.value as T, asOf: entry.asOf, hit: true, stale: false };
    this.#counts.misses += 1;
    // The floor as it is when the read begins. A change that becomes known later is concurrent with
    // the read, so an answer from before it and one from after it are both right.
    const floor = this.#floors.of(key, scopes);
    const deadline = this.#now() + waitMs;
    for (let attempt = 0; attempt <= maxRetries; attempt += 1) {
      try {
        const patienceMs = this.#patienceMs(key, deadline);
        // A load whose answer was below the floor has ended, so each attempt gets an answer that
        // was made later.
        const loaded = await within(patienceMs, this.#load(key, scopes, load, min));
        // `min` is not compared: where the reader requires a revision that does not exist yet,
        // asking again brings nothing, and whoever required it refuses the answer.
        if (includes(loaded.asOf, floor))
          return {
            value: loaded.value as T,
            asOf: loaded.asOf,
            hit: false,
            stale: loaded.stale ?? false,
          };
      } catch (error) {
        const lastKnown = this.#lastKnown(key);
        const mayServeStale =
          lastKnown && includes(lastKnown.asOf, min) && this.#options.isOutage(error);
        if (!mayServeStale) throw error;
        this.#counts.stale += 1;
        return { value: lastKnown.value as T, asOf: lastKnown.asOf, hit: false, stale: true };
      }
      this.#counts.rejectedBelowFloor += 1;
    }
    throw new StrataError(
      'service_unavailable',
      'The owner of this value answers from before a change that is known to be committed. Try again.',
    );
  }

  /**
   * How long to wait for the owner: until the deadline, or less where there is no lease and a known
   * value can be a fallback.
   */
  #patienceMs(key: string, deadline: number): number {
    const now = this.#now();
    const leftMs = deadline - now;
    if (this.#options.hasLease(now)) return leftMs;
    return this.#lastKnown(key) ? Math.min(leftMs, ownerPatienceMs) : leftMs;
  }

  /** What may be the fallback for the owner. */
  #lastKnown(key: string): Entry | undefined {
    return this.#mayServeStale() ? this.#lookUpEvictingDropped(key) : undefined;
  }

  #mayServeStale(): boolean {
    return this.#options.mayServeStale?.(this.#now()) ?? true;
  }

  /**
   * Asks for the newest floor that is known by now, which may be above the one that `read` accepts
   * an answer by.
   */
  #load(
    key: string,
    scopes: readonly string[],
    load: Load<unknown>,
    min: AsOf,
  ): Promise<Loaded<unknown>> {
    const minAsOf = highest(min, this.#floors.of(key, scopes));
    if (!this.#options.hasLease(this.#now())) return this.#readThrough(load, minAsOf);
    const running = this.#loads.get(key);
    if (running && includes(running.minAsOf, minAsOf)) return running.promise;
    return this.#startLoad(key, scopes, load, minAsOf);
  }

  /** A load whose answer is neither cached nor shared. */
  #readThrough(load: Load<unknown>, minAsOf: AsOf): Promise<Loaded<unknown>> {
    this.#counts.readThrough += 1;
    const resets = this.#resets;
    return load(minAsOf).then((loaded) => {
      this.#noteLoaded(loaded.asOf, resets);
      return loaded;
    });
  }

  #startLoad(
    key: string,
    scopes: readonly string[],
    load: Load<unknown>,
    minAsOf: AsOf,
  ): Promise<Loaded<unknown>> {
    const answer = load(minAsOf);
    // A load that runs already requires less. It must not end later and replace what this one
    // brings.
    this.#markLoadOutdated(key);
    const resets = this.#resets;
    const own: PendingLoad = {
      scopes,
      minAsOf,
      outdated: false,
      promise: answer
        .then((loaded) => {
          if (this.#mayCache(key, own, loaded)) this.#cache(key, scopes, loaded);
          this.#noteLoaded(loaded.asOf, resets);
          return loaded;
        })
        .finally(() => {
          if (this.#loads.get(key) === own) this.#loads.delete(key);
        }),
    };
    this.#loads.set(key, own);
    return own.promise;
  }

  #noteLoaded(asOf: AsOf, resetsWhenItBegan: number): void {
    if (resetsWhenItBegan === this.#resets) this.#options.onLoaded?.(asOf);
  }

  #mayCache(key: string, { outdated, scopes }: PendingLoad, loaded: Loaded<unknown>): boolean {
    const { asOf, stale = false } = loaded;
    if (outdated || stale || !this.#options.hasLease(this.#now())) return false;
    return includes(asOf, this.#floors.of(key, scopes));
  }

  #cache(key: string, scopes: readonly string[], loaded: Loaded<unknown>): void {
    freeze(loaded.value);
    const characters = key.length + JSON.stringify(loaded.value).length;
    const size = entryOverheadBytes + bytesPerCharacter * characters;
    if (size > this.#options.maxBytes) return;
    const scopeRevisions = scopes.map((name) => ({
      scope: this.#joinScope(name),
      revision: loaded.asOf[name] ?? 0,
    }));
    const ttlMs = this.#options.ttlMs();
    const entry = new Entry(key, loaded, scopeRevisions, this.#keeper, this.#now(), ttlMs);
    this.#entries.set(key, entry, { size });
    // Here rather than by the cache's own `max`, for which it takes all its memory when it is made.
    if (this.#entries.size > this.#options.maxEntries) this.#entries.pop();
  }

  /** Whether it has anything to answer with while owners are away. */
  hasLastKnown(): boolean {
    return this.#mayServeStale() && this.#entries.size > 0;
  }

  /**
   * Drops what is older than `revision` under exactly these keys, and marks loads of them in flight
   * as outdated, so that an answer from before the change is never cached. Returns how many entries
   * were removed. A change that is known already does nothing: the feed repeats changes, and
   * nothing older was cached since the first time.
   */
  drop(keys: readonly string[], scope: string, revision: number): number {
    let removed = 0;
    for (const key of keys) {
      const isNews = this.#floors.raise(scope, revision, key);
      if (!isNews) continue;
      this.#markLoadOutdated(key);
      const entry = this.#entries.peek(key);
      if (entry && (entry.asOf[scope] ?? 0) < revision) removed += this.#remove(key);
    }
    return removed;
  }

  /**
   * The same for everything that was read with the scope. Only raises the number that these entries
   * are compared with: every way to an entry makes that comparison, so finding it outdated at the
   * next look-up is as good as removing it now.
   */
  dropScope(scope: string, revision: number): void {
    const isNews = this.#floors.raise(scope, revision);
    if (!isNews) return;
    const shared = this.#scopes.get(scope);
    if (shared) shared.droppedBelow = Math.max(shared.droppedBelow, revision);
    this.#markLoadsOutdated(scope);
  }

  /** Removes the keys whatever their revision. Returns how many entries were removed. */
  flushKeys(keys: readonly string[]): number {
    let removed = 0;
    for (const key of keys) {
      this.#markLoadOutdated(key);
      removed += this.#remove(key);
    }
    return removed;
  }

  /** Removes everything that was read with the scope, whatever its revision. */
  flushScope(scope: string): void {
    const shared = this.#scopes.get(scope);
    if (shared) shared.droppedBelow = Infinity;
    // Entries that are there already keep the old object and so stay dropped. Later ones share a
    // new object of the same name.
    this.#scopes.delete(scope);
    this.#markLoadsOutdated(scope);
  }

  /** Removes everything, the last known values too. */
  flush(): void {
    this.#counts.drops += this.#entries.size;
    this.#entries.clear();
    for (const key of this.#loads.keys()) this.#markLoadOutdated(key);
  }

  /**
   * Removes everything, and what is known of revisions as well: the database has gone back to an
   * older state, in which they count again. Answers on their way from before are given to those who
   * wait for them and otherwise ignored.
   */
  reset(): void {
    this.flush();
    this.#floors.clear();
    this.#resets += 1;
  }

  /**
   * The keys of what was not dropped, expired entries included; with a scope, of what was read with
   * it.
   */
  keys(scope?: string): string[] {
    const readWith = ({ scopeRevisions }: Entry): boolean =>
      scope === undefined || scopeRevisions.some((each) => each.scope.name === scope);
    return [...this.#entries.entries()]
      .filter(([, entry]) => !entry.isDropped() && readWith(entry))
      .map(([key]) => key);
  }

  /**
   * `entries` and `bytes` are what memory holds, with entries of dropped scopes until they are
   * looked up or evicted.
   */
  stats() {
    return {
      entries: this.#entries.size,
      bytes: this.#entries.calculatedSize,
      floors: this.#floors.size,
      ...this.#counts,
    };
  }

  /**
   * The entry, expired or not, unless its scope was dropped: then it is removed, which `dropScope`
   * leaves to the next look-up.
   */
  #lookUpEvictingDropped(key: string): Entry | undefined {
    const entry = this.#entries.peek(key);
    if (!entry?.isDropped()) return entry;
    this.#remove(key);
    return undefined;
  }

  #recordHit(entry: Entry): void {
    this.#counts.hits += 1;
    // Renews its place in the order of eviction.
    this.#entries.get(entry.key);
  }

  #markLoadOutdated(key: string): void {
    const pending = this.#loads.get(key);
    if (!pending) return;
    pending.outdated = true;
    this.#loads.delete(key);
    this.#counts.outdatedLoads += 1;
  }

  #markLoadsOutdated(scope: string): void {
    for (const [key, pending] of this.#loads)
      if (pending.scopes.includes(scope)) this.#markLoadOutdated(key);
  }

  #remove(key: string): number {
    const removed = Number(this.#entries.delete(key));
    this.#counts.drops += removed;
    return removed;
  }

  /** However the entry left: removed, replaced or evicted. */
  #onRemoved(entry: Entry): void {
    entry.evicted = true;
    // Others may still refer to the entry, and must not keep its value in memory.
    entry.value = undefined;
    for (const { scope } of entry.scopeRevisions) this.#leaveScope(scope);
  }

  #joinScope(name: string): RevisionScope {
    const scope = this.#scopes.get(name) ?? { name, droppedBelow: 0, entryCount: 0 };
    scope.entryCount += 1;
    this.#scopes.set(name, scope);
    return scope;
  }

  #leaveScope(scope: RevisionScope): void {
    scope.entryCount -= 1;
    const isCurrent = this.#scopes.get(scope.name) === scope;
    if (scope.entryCount === 0 && isCurrent) this.#scopes.delete(scope.name);
  }
}
