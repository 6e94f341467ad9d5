/**
 * A node's memory of configuration, which never answers below what the node knows to be committed.
 *
 * | Part       | Protects against                                          | Bounded by                                          |
 * |------------|-----------------------------------------------------------|-----------------------------------------------------|
 * | drop       | a cached value that a committed change made old           | exact keys                                          |
 * | disowning  | a load that read before the change and ends after the drop | it answers those who waited already, and is not kept |
 * | floor      | an answer from before the change that arrives afterwards  | request timeout + fence; then nothing that old is left in flight |
 * | epoch      | loads in flight over a flush                              | the load                                            |
 * | trust      | serving while the node's lease on the feed has run out    | the lease is asked at both ends of a load           |
 *
 * Entries outlive their lifetime: an expired or untrusted one is the last known good value when its owner is away, and is then
 * marked stale. A dropped one is gone, for it is known to be old.
 */
import { LRUCache } from 'lru-cache';
import { performance } from 'node:perf_hooks';
import { StrataError } from '../errors.ts';

/** Scope → revision that a value is known to include. */
export type AsOf = Readonly<Record<string, number>>;
export interface Loaded<T> { readonly value: T; readonly asOf: AsOf }
export interface Found<T> extends Loaded<T> { readonly stale: boolean }

export interface CacheOptions {
  readonly name: string;
  readonly ttlMs: () => number;
  readonly maxEntries: number;
  readonly maxBytes: number;
  readonly floorTtlMs: number;
  /** Whether this node may serve from memory now. */
  readonly trusted: () => boolean;
  /** Failures of the owner under which the last known good value stands in. */
  readonly isOutage: (error: unknown) => boolean;
  readonly now?: () => number;
}

interface Entry { readonly value: unknown; readonly asOf: AsOf; readonly expires: number }
interface Load { readonly promise: Promise<Loaded<unknown>>; readonly scopes: readonly string[]; readonly min: AsOf; disowned: boolean }

const attempts = 3;

export class CoherentCache {
  readonly #options: CacheOptions;
  readonly #now: () => number;
  readonly #entries: LRUCache<string, Entry>;
  /** `key\nscope` or `\nscope` → least revision that may be kept. */
  readonly #floors: LRUCache<string, number>;
  readonly #loads = new Map<string, Load>();
  #epoch = 0;
  readonly #counts = { hits: 0, misses: 0, drops: 0, disowned: 0, below_floor: 0, stale: 0, read_through: 0 };

  constructor(options: CacheOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#entries = new LRUCache({ max: options.maxEntries, maxSize: options.maxBytes });
    this.#floors = new LRUCache({ max: 1_000_000, ttl: options.floorTtlMs, perf: { now: this.#now } });
  }

  /** The entry, where it may be served now. Synchronous, for the hot path. */
  peek(key: string, min?: AsOf): Loaded<unknown> | undefined {
    const entry = this.#entries.get(key);
    if (!entry || entry.expires <= this.#now() || !this.#options.trusted() || (min && !includes(entry.asOf, min)) || !this.#aboveFloor(key, entry.asOf)) {
      return undefined;
    }
    this.#counts.hits += 1;
    return entry;
  }

  /**
   * From memory, else by `load`, which is shared by all who ask meanwhile. Throws what `load` throws, unless it is an outage and
   * a last known good value is there.
   */
  async read<T>(key: string, scopes: readonly string[], load: () => Promise<Loaded<T>>, { min = {} }: { min?: AsOf } = {}): Promise<Found<T>> {
    const hit = this.peek(key, min);
    if (hit) return { ...hit as Loaded<T>, stale: false };
    this.#counts.misses += 1;
    try {
      for (let attempt = 0; attempt < attempts; attempt += 1) {
        const floor = this.#floorOf(key, scopes);
        const loaded = await this.#load(key, scopes, load, min);
        // The floor of when this read began: a value below it is from before a change that was known then.
        if (includes(loaded.asOf, floor)) return { value: loaded.value as T, asOf: loaded.asOf, stale: false };
        this.#counts.below_floor += 1;
      }
      throw new StrataError('service_unavailable', 'The owner of this value answers from before a change that is known to be committed. Try again.');
    } catch (error) {
      const known = this.#entries.peek(key);
      if (!known || !this.#options.isOutage(error) || !this.#aboveFloor(key, known.asOf)) throw error;
      this.#counts.stale += 1;
      return { value: known.value as T, asOf: known.asOf, stale: true };
    }
  }

  #load(key: string, scopes: readonly string[], load: () => Promise<Loaded<unknown>>, min: AsOf): Promise<Loaded<unknown>> {
    if (!this.#options.trusted()) {
      this.#counts.read_through += 1;
      return load();
    }
    const running = this.#loads.get(key);
    if (running && includes(running.min, min)) return running.promise;
    const epoch = this.#epoch;
    const own: Load = {
      scopes, min, disowned: false,
      promise: load().then((loaded) => {
        if (!own.disowned && epoch === this.#epoch && this.#options.trusted() && this.#aboveFloor(key, loaded.asOf)) this.#keep(key, loaded);
        return loaded;
      }).finally(() => { if (this.#loads.get(key) === own) this.#loads.delete(key); }),
    };
    this.#loads.set(key, own);
    return own.promise;
  }

  #keep(key: string, { value, asOf }: Loaded<unknown>): void {
    const size = 200 + key.length + freeze(value);
    this.#entries.set(key, { value, asOf, expires: this.#now() + this.#options.ttlMs() }, { size });
  }

  /** Removes what is older than `revision` under exactly these keys, and keeps older answers out. */
  drop(keys: readonly string[], scope: string, revision: number): void {
    for (const key of keys) {
      this.#raise(`${key}\n${scope}`, revision);
      this.#disown(key);
      const entry = this.#entries.peek(key);
      if (entry && (entry.asOf[scope] ?? 0) < revision) this.#remove(key);
    }
  }

  /**
   * The same for everything that was read with the scope. Entries below the scope's floor are left to be found old when they are
   * asked for: an index of keys by scope would cost each read what only a write needs.
   */
  dropScope(scope: string, revision: number): void {
    this.#raise(`\n${scope}`, revision);
    this.#counts.drops += 1;
    for (const [key, load] of this.#loads) if (load.scopes.includes(scope)) this.#disown(key);
    for (const [key, entry] of this.#entries.entries()) if ((entry.asOf[scope] ?? revision) < revision) this.#remove(key);
  }

  /** Removes the keys whatever their revision. */
  forget(keys: readonly string[]): void {
    for (const key of keys) {
      this.#disown(key);
      this.#remove(key);
    }
  }

  /** Removes everything of a scope. */
  flushScope(scope: string): void {
    this.forget(this.keys(scope));
    for (const [key, load] of this.#loads) if (load.scopes.includes(scope)) this.#disown(key);
  }

  flush(): void {
    this.#epoch += 1;
    this.#counts.drops += this.#entries.size;
    this.#entries.clear();
    this.#loads.clear();
  }

  keys(scope?: string): string[] {
    return [...this.#entries.entries()].filter(([, entry]) => scope === undefined || scope in entry.asOf).map(([key]) => key);
  }

  stats(): Readonly<Record<string, number>> {
    return { entries: this.#entries.size, bytes: this.#entries.calculatedSize, floors: this.#floors.size, ...this.#counts };
  }

  #raise(floor: string, revision: number): void {
    if (revision > (this.#floors.get(floor) ?? -1)) this.#floors.set(floor, revision);
  }

  #disown(key: string): void {
    const load = this.#loads.get(key);
    if (!load) return;
    load.disowned = true;
    this.#loads.delete(key);
    this.#counts.disowned += 1;
  }

  #remove(key: string): void {
    if (this.#entries.delete(key)) this.#counts.drops += 1;
  }

  #floorOf(key: string, scopes: readonly string[]): AsOf {
    const floors: Record<string, number> = {};
    for (const scope of scopes) floors[scope] = Math.max(this.#floors.get(`${key}\n${scope}`) ?? 0, this.#floors.get(`\n${scope}`) ?? 0);
    return floors;
  }

  #aboveFloor(key: string, asOf: AsOf): boolean {
    for (const scope in asOf) {
      const revision = asOf[scope]!;
      if (revision < (this.#floors.get(`${key}\n${scope}`) ?? 0) || revision < (this.#floors.get(`\n${scope}`) ?? 0)) return false;
    }
    return true;
  }
}

const includes = (asOf: AsOf, least: AsOf): boolean => {
  for (const scope in least) if ((asOf[scope] ?? 0) < least[scope]!) return false;
  return true;
};

/** Freezes all the way down, without recursion, and estimates the bytes: local calls pass values by reference. */
function freeze(root: unknown): number {
  let bytes = 0;
  const left = [root];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value === 'string') bytes += 2 * value.length + 16;
    else if (typeof value === 'object' && value !== null) {
      bytes += 48;
      Object.freeze(value);
      for (const [name, member] of Object.entries(value)) {
        bytes += name.length + 16;
        left.push(member);
      }
    } else bytes += 8;
  }
  return bytes;
}
