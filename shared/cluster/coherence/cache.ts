/**
 * A node's memory of configuration, which never answers below what the node knows to be committed.
 *
 * | Part          | Protects against                                    | Bounded by, degrades to                                     |
 * |---------------|-----------------------------------------------------|-------------------------------------------------------------|
 * | drop          | an entry that a committed change made old           | exact keys; a repeated change removes nothing newer         |
 * | scope drop    | the same, for all that was read with a scope        | one comparison per hit; the memory is freed at the next look or by eviction |
 * | disowning     | a load that began before a drop and ends after it   | the load; who waited already is answered, nobody else        |
 * | floor         | another node answering from before the change       | see floors.ts; asked again 3 times, then service_unavailable |
 * | epoch         | loads in flight over a flush                        | the load                                                    |
 * | trust         | serving while the lease on the feed has run out     | reads go through to the owner; nothing is kept or shared     |
 * | single flight | a thundering herd on the owner                      | per key and node; a reader who needs more begins its own     |
 * | last known    | the owner being away, or slow while trust has run out | marked stale; only what was never dropped, else the error  |
 * | size          | running out of memory                               | entries and bytes, eviction by recency                      |
 *
 * A lease that lapses and returns during a load needs no mark: the poll that renews it first applies what was missed, which
 * disowns the load if it matters.
 */
import { LRUCache } from 'lru-cache';
import { performance } from 'node:perf_hooks';
import { StrataError } from '../../errors.ts';
import {
  Entry,
  freeze,
  isDropped,
  type CachedEntry,
  type Loaded,
  type RevisionScope,
} from './entry.ts';
import { Floors, includes, type AsOf } from './floors.ts';

export interface Found<T> {
  readonly value: T;
  readonly asOf: AsOf;
  readonly hit: boolean;
  readonly stale: boolean;
}
/** Is given the revisions that the answer must include, so that the owner can pass over a cache of its own. */
export type Load<T> = (minAsOf: AsOf) => Promise<Loaded<T>>;

export interface CacheOptions {
  readonly name: string;
  readonly ttlMs: () => number;
  readonly maxEntries: number;
  readonly maxBytes: number;
  /** At least the request timeout and the fence time together. */
  readonly floorTtlMs: number;
  /** Whether this node's lease on the change feed is valid now. */
  readonly trusted: (now: number) => boolean;
  /** Told of every loaded answer, before anyone gets it. */
  readonly observe?: (asOf: AsOf) => void;
  /** Failures of the owner under which the last known good value stands in. */
  readonly isOutage: (error: unknown) => boolean;
  /** Milliseconds, monotonic. */
  readonly now?: () => number;
}

interface Flight {
  readonly promise: Promise<Loaded<unknown>>;
  readonly scopes: readonly string[];
  readonly least: AsOf;
  disowned: boolean;
}

const retries = 3;
const recencyMs = 1000;
/** Without trust every read goes to the owner; where it does not answer, a known value stands in after this long. */
const patienceMs = 500;
/** Bookkeeping of an entry beside its key and value. */
const entryBytes = 200;

export class CoherentCache {
  readonly #options: CacheOptions;
  readonly #now: () => number;
  readonly #entries: LRUCache<string, Entry>;
  readonly #scopes = new Map<string, RevisionScope>();
  readonly #floors: Floors;
  readonly #flights = new Map<string, Flight>();
  #epoch = 0;
  readonly #counts = {
    hits: 0,
    misses: 0,
    drops: 0,
    disowned: 0,
    rejectedBelowFloor: 0,
    stale: 0,
    readThrough: 0,
  };

  constructor(options: CacheOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#entries = new LRUCache({
      max: options.maxEntries,
      maxSize: options.maxBytes,
      dispose: (entry) => {
        entry.gone = true;
        // Whoever still holds the entry does not hold its memory.
        entry.value = undefined;
        for (const { scope } of entry.held) this.#release(scope);
      },
    });
    this.#floors = new Floors({
      ttlMs: options.floorTtlMs,
      max: options.maxEntries,
      now: this.#now,
    });
  }

  /** The entry, where it may be served now. Synchronous, for the hot path; exact keys were removed when they were dropped. */
  peek(key: string, min?: AsOf): CachedEntry<unknown> | undefined {
    const entry = this.#known(key);
    return entry && (!min || includes(entry.asOf, min)) && this.#serves(entry, this.#now())
      ? entry
      : undefined;
  }

  /** Counts a hit where it may. */
  readonly #serves = (entry: Entry, now: number): boolean => {
    if (entry.gone || entry.expires <= now || isDropped(entry) || !this.#options.trusted(now))
      return false;
    this.#counts.hits += 1;
    // Renewing it costs most of a hit; eviction needs no finer order.
    if (now - entry.used > recencyMs) {
      entry.used = now;
      this.#entries.get(entry.key);
    }
    return true;
  };

  /**
   * From memory, else by `load`, which is shared by all who ask meanwhile. `min` asks for more than the cache itself demands.
   * Throws what `load` throws, unless it is an outage and a last known good value is there; `service_unavailable` where the owner
   * keeps answering from before a known change; `timeout` after `waitMs`.
   */
  async read<T>(
    key: string,
    scopes: readonly string[],
    load: Load<T>,
    { min = {}, waitMs = Infinity }: { readonly min?: AsOf; readonly waitMs?: number } = {},
  ): Promise<Found<T>> {
    const entry = this.peek(key, min);
    if (entry) return { value: entry.value as T, asOf: entry.asOf, hit: true, stale: false };
    this.#counts.misses += 1;
    const floor = this.#floors.of(key, scopes);
    const until = this.#now() + waitMs;
    for (let attempt = 0; attempt <= retries; attempt += 1) {
      try {
        const left = until - this.#now();
        const patience =
          !this.#options.trusted(this.#now()) && this.#known(key)
            ? Math.min(left, patienceMs)
            : left;
        const loaded = await within(patience, this.#load(key, scopes, load, min));
        // Changes that became known during the read do not refuse its answer: the two overlap.
        if (includes(loaded.asOf, floor))
          return { value: loaded.value as T, asOf: loaded.asOf, hit: false, stale: false };
      } catch (error) {
        const known = this.#known(key);
        if (!known || !includes(known.asOf, min) || !this.#options.isOutage(error)) throw error;
        this.#counts.stale += 1;
        return { value: known.value as T, asOf: known.asOf, hit: false, stale: true };
      }
      this.#counts.rejectedBelowFloor += 1;
    }
    throw Object.assign(
      new Error(
        'The owner of this value answers from before a change that is known to be committed. Try again.',
      ),
      { code: 'service_unavailable' },
    );
  }

  #load(
    key: string,
    scopes: readonly string[],
    load: Load<unknown>,
    min: AsOf,
  ): Promise<Loaded<unknown>> {
    const least = highest(min, this.#floors.of(key, scopes));
    if (!this.#options.trusted(this.#now())) {
      this.#counts.readThrough += 1;
      return load(least).then((loaded) => {
        this.#options.observe?.(loaded.asOf);
        return loaded;
      });
    }
    const running = this.#flights.get(key);
    if (running && includes(running.least, least)) return running.promise;
    // The weaker load must not end last and be kept over the stronger.
    this.#disown(key);
    const epoch = this.#epoch;
    const own: Flight = {
      scopes,
      least,
      disowned: false,
      promise: load(least)
        .then((loaded) => {
          if (
            !own.disowned &&
            epoch === this.#epoch &&
            this.#options.trusted(this.#now()) &&
            includes(loaded.asOf, this.#floors.of(key, scopes))
          ) {
            this.#keep(key, scopes, loaded);
          }
          this.#options.observe?.(loaded.asOf);
          return loaded;
        })
        .finally(() => {
          if (this.#flights.get(key) === own) this.#flights.delete(key);
        }),
    };
    this.#flights.set(key, own);
    return own.promise;
  }

  #keep(key: string, scopes: readonly string[], loaded: Loaded<unknown>): void {
    const estimated = freeze(loaded.value);
    const size = entryBytes + 2 * key.length + Math.ceil(loaded.bytes ?? estimated);
    if (size > this.#options.maxBytes) return;
    const held = scopes.map((name) => ({
      scope: this.#hold(name),
      revision: loaded.asOf[name] ?? 0,
    }));
    this.#entries.set(
      key,
      new Entry(key, loaded, held, this.#serves, this.#now(), this.#options.ttlMs()),
      { size },
    );
  }

  /**
   * Removes what is older than `revision` under exactly these keys, and keeps older answers out. Returns how many entries went.
   * A change that is known already is passed over: the feed repeats changes, and nothing older was kept since.
   */
  drop(keys: readonly string[], scope: string, revision: number): number {
    let removed = 0;
    for (const key of keys) {
      if (!this.#floors.raise(scope, revision, key)) continue;
      this.#disown(key);
      const entry = this.#entries.peek(key);
      if (entry && (entry.asOf[scope] ?? 0) < revision) removed += this.#remove(key);
    }
    return removed;
  }

  /**
   * The same for everything that was read with the scope. Raises the one number that these entries are compared with when they
   * are next looked at: every way to an entry passes that comparison, so finding it old then is as good as finding it now.
   */
  dropScope(scope: string, revision: number): void {
    if (!this.#floors.raise(scope, revision)) return;
    const held = this.#scopes.get(scope);
    if (held) held.floor = Math.max(held.floor, revision);
    this.#disownScope(scope);
  }

  /** Removes the keys whatever their revision. */
  forget(keys: readonly string[]): number {
    let removed = 0;
    for (const key of keys) {
      this.#disown(key);
      removed += this.#remove(key);
    }
    return removed;
  }

  /** Removes everything that was read with the scope, whatever its revision. */
  flushScope(scope: string): void {
    const held = this.#scopes.get(scope);
    if (held) held.floor = Infinity;
    // Entries to come hold a scope of their own.
    this.#scopes.delete(scope);
    this.#disownScope(scope);
  }

  /** Removes everything, the last known good values too. */
  flush(): void {
    this.#epoch += 1;
    this.#counts.drops += this.#entries.size;
    this.#counts.disowned += this.#flights.size;
    this.#entries.clear();
    this.#flights.clear();
  }

  keys(scope?: string): string[] {
    return [...this.#entries.entries()]
      .filter(
        ([, entry]) =>
          !isDropped(entry) &&
          (scope === undefined || entry.held.some((held) => held.scope.name === scope)),
      )
      .map(([key]) => key);
  }

  /** `entries` and `bytes` are what memory holds, entries of a dropped scope included until they are looked at or evicted. */
  stats() {
    return {
      entries: this.#entries.size,
      bytes: this.#entries.calculatedSize,
      floors: this.#floors.size,
      ...this.#counts,
    };
  }

  #known(key: string): Entry | undefined {
    const entry = this.#entries.peek(key);
    if (!entry || !isDropped(entry)) return entry;
    this.#remove(key);
    return undefined;
  }

  #disown(key: string): void {
    const flight = this.#flights.get(key);
    if (!flight) return;
    flight.disowned = true;
    this.#flights.delete(key);
    this.#counts.disowned += 1;
  }

  #disownScope(scope: string): void {
    for (const [key, flight] of this.#flights) if (flight.scopes.includes(scope)) this.#disown(key);
  }

  #remove(key: string): number {
    const removed = Number(this.#entries.delete(key));
    this.#counts.drops += removed;
    return removed;
  }

  #hold(name: string): RevisionScope {
    const scope = this.#scopes.get(name) ?? { name, floor: 0, entries: 0 };
    scope.entries += 1;
    this.#scopes.set(name, scope);
    return scope;
  }

  #release(scope: RevisionScope): void {
    scope.entries -= 1;
    if (scope.entries === 0 && this.#scopes.get(scope.name) === scope)
      this.#scopes.delete(scope.name);
  }
}

/** The promise, or `timeout` where it takes longer; it goes on by itself. */
async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  if (ms === Infinity) return promise;
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new StrataError('timeout')), ms);
  });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}

const highest = (one: AsOf, other: AsOf): AsOf => {
  const result: Record<string, number> = { ...one };
  for (const scope in other) result[scope] = Math.max(result[scope] ?? 0, other[scope]!);
  return result;
};
