/**
 * This node's caches, and what keeps them coherent with the database. T is the fence time, COHERENCE_FENCE_MS.
 *
 * | Part           | Protects against                                      | Bounded by, degrades to                               |
 * |----------------|-------------------------------------------------------|-------------------------------------------------------|
 * | broadcast      | (speed) a write waits for acknowledgements, not for T | lost: the feed brings the change within a poll interval |
 * | change feed    | lost broadcasts, a node that joined a moment ago      | polled every T/4; the cursor follows snapshots, see feed.ts |
 * | lease          | a node cut off from the feed serving what it has      | T after its last good poll *began* it reads through   |
 * | fence          | answering a write while such a node still serves      | a write waits for all lease holders, at most T        |
 * | outdated loads, floors | loads in flight while a key is dropped        | see cache.ts                                          |
 * | load ahead of the feed | a reader seeing the loaded value, then an older one from another entry of the scope | the older entries are dropped, and loaded again once |
 * | last known     | the owner or the database being away                  | the last known value, marked stale; else 503          |
 */
import { LRUCache } from 'lru-cache';
import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';
import type { CacheName } from '../../contracts/contract.ts';
import { settingsReplacedKey } from '../../contracts/feed.ts';
import { platformScope, tenantScope } from '../../contracts/revision-scopes.ts';
import { isOutage } from '../../errors.ts';
import type { Change } from '../../commits/commit.ts';
import { WakeableWait } from '../../wakeable-wait.ts';
import { CoherentCache } from './cache.ts';
import type { AsOf } from './floors.ts';
import type { PollResult } from './feed.ts';

export interface CoherenceOptions {
  readonly nodeId: string;
  /** T: how long a write may be delayed, and how long a lease lasts without a poll. */
  readonly fenceMs: number;
  readonly requestTimeoutMs: number;
  /** Lifetime of the entries of `configuration_service` and `identity`, in minutes (CACHE_DEFAULT_TTL). */
  readonly ttlMinutes: () => number;
  readonly log: Logger;
}

/** How this node reaches the change feed and the other nodes. In embedded mode the feed is in its own database and nobody listens. */
export interface ClusterLink {
  /** Renews this node's lease and reads the changes since the cursor; null before the first poll. */
  readonly poll: (cursor: string | null) => Promise<PollResult>;
  /** Gives the lease back. */
  readonly leave: () => Promise<void>;
  readonly broadcast: (change: Change) => void;
  /** Nodes whose lease is valid and whose cursor is not past the change. Only on nodes with a database, which alone commit. */
  readonly leaseHolders?: (changeId: string) => Promise<string[]>;
}

/** What a write waits for: the nodes that have acknowledged its change so far, and the arrival of the next. */
interface Acknowledgements {
  readonly nodes: Set<string>;
  readonly arrival: WakeableWait;
}

const dynamicTtlMs = 5 * 60_000;
/** How often the lease table is read while acknowledgements are missing. */
const leaseTableIntervalMs = 200;

export class Coherence {
  readonly caches: Record<CacheName, CoherentCache>;
  /** `fences`: writes that waited for all of T. `fencedOut`: polls that failed while there was no lease. */
  readonly figures = { polls: 0, pollFailures: 0, fences: 0, fencedOut: 0 };
  readonly #options: CoherenceOptions;
  readonly #awaited = new Map<string, Acknowledgements>();
  readonly #listeners = new Set<(change: Change) => void>();
  /**
   * Scope → revision up to which every change of the scope is applied here. Where it forgets a scope, the scope's next load counts
   * as ahead of the feed and drops what is older.
   */
  readonly #applied = new LRUCache<string, number>({ max: 100_000 });
  readonly #nextPoll = new WakeableWait();
  #link: ClusterLink | undefined;
  #cursor: string | null = null;
  #leaseValidUntil = -Infinity;
  #onPublished: (ms: number) => void = () => {};
  #stopped = false;
  #polling: Promise<void> = Promise.resolve();

  constructor(options: CoherenceOptions) {
    this.#options = options;
    const cache = (ttlMs: () => number) =>
      new CoherentCache({
        ttlMs,
        maxEntries: 100_000,
        maxBytes: 256 * 1024 * 1024,
        floorTtlMs: 2 * (options.fenceMs + options.requestTimeoutMs),
        hasLease: (now) => this.hasLease(now),
        isOutage,
        onLoaded: (asOf) => this.#dropWhatIsOlder(asOf),
      });
    const ttlMs = () => options.ttlMinutes() * 60_000;
    this.caches = {
      configuration_service: cache(ttlMs),
      dynamic_config_service: cache(() => dynamicTtlMs),
      identity: cache(ttlMs),
    };
  }

  /** Whether this node may serve from memory at `now` (performance.now()). */
  hasLease(now = performance.now()): boolean {
    return now < this.#leaseValidUntil;
  }

  /** Since the last good poll began. Infinite before the first. */
  pollAgeMs(): number {
    return performance.now() - (this.#leaseValidUntil - this.#options.fenceMs);
  }

  /** Begins to poll the feed. Resolves once the first poll has succeeded or failed. */
  async start(link: ClusterLink): Promise<void> {
    this.#link = link;
    await this.#poll();
    this.#polling = this.#pollRegularly();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#nextPoll.wake();
    await this.#polling;
    await this.#link
      ?.leave()
      .catch((error: unknown) =>
        this.#options.log.debug({ err: error }, 'the caching lease runs out by itself'),
      );
  }

  /** For when broadcasts may have been lost. */
  pollNow(): void {
    this.#nextPoll.wake();
  }

  /**
   * Calls the listener with every change once it is applied here: perhaps twice, and in no particular order between scopes.
   * Returns how to stop listening.
   */
  onChange(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Calls the one listener after each change committed here, with the milliseconds until no node could answer from before it. */
  onPublished(listener: (ms: number) => void): void {
    this.#onPublished = listener;
  }

  /** Drops what the change made outdated here. Applying a change again does nothing more than calling the listeners. */
  apply(change: Change): void {
    const { keys, scope, revision } = change;
    this.caches.configuration_service.drop(keys, scope, revision);
    this.caches.identity.drop(keys, scope, revision);
    if (keys.includes(settingsReplacedKey)) this.caches.identity.flush();
    const isConfiguration = scope === platformScope || scope.startsWith(tenantScope(''));
    // Its entries are made of many documents, so that exact keys do not name them.
    if (isConfiguration) this.caches.dynamic_config_service.dropScope(scope, revision);
    const appliedBefore = this.#applied.get(scope);
    // After a gap, changes between the two may still come.
    const isNext = appliedBefore !== undefined && revision === appliedBefore + 1;
    if (isNext) this.#applied.set(scope, revision);
    for (const listener of this.#listeners) listener(change);
  }

  /**
   * A load may include revisions whose changes have not arrived here. Whoever has seen its value must not get an older one from
   * another entry of the scope afterwards, so everything older of the scope is dropped.
   */
  #dropWhatIsOlder(loaded: AsOf): void {
    for (const [scope, revision] of Object.entries(loaded)) {
      const applied = this.#applied.get(scope) ?? -1;
      if (revision <= applied) continue;
      this.#applied.set(scope, revision);
      for (const cache of Object.values(this.caches)) cache.dropScope(scope, revision);
    }
  }

  /**
   * Makes committed changes known: drops here, broadcasts, and waits until every node that may cache has dropped too, at most T
   * after the commit. A node that has said nothing for T has no lease any more and serves nothing from memory.
   */
  async publish(changes: readonly Change[]): Promise<void> {
    await Promise.all(changes.map((change) => this.#publish(change)));
  }

  async #publish(change: Change): Promise<void> {
    const began = performance.now();
    const acknowledgements: Acknowledgements = {
      nodes: new Set([this.#options.nodeId]),
      arrival: new WakeableWait(),
    };
    this.#awaited.set(nameOf(change), acknowledgements);
    this.apply(change);
    this.#link?.broadcast(change);
    try {
      const fenceEnd = began + this.#options.fenceMs;
      const inTime = await this.#waitForLeaseHolders(change.id, acknowledgements, fenceEnd);
      if (!inTime) this.figures.fences += 1;
    } finally {
      this.#awaited.delete(nameOf(change));
      this.#onPublished(performance.now() - began);
    }
  }

  /** Resolves to true once every lease holder has acknowledged, to false at the end of the fence. */
  async #waitForLeaseHolders(
    changeId: string,
    { nodes, arrival }: Acknowledgements,
    fenceEnd: number,
  ): Promise<boolean> {
    for (;;) {
      // Nobody joins the holders afterwards: a lease renewed after they were read belongs to a poll that reads this change.
      const holders = await this.#leaseHolders(changeId);
      const haveAllAnswered = (): boolean =>
        holders !== undefined && holders.every((node) => nodes.has(node));
      // Read again meanwhile, for nodes that saw the change in the feed, or left, and do not acknowledge.
      const readAgainAt = Math.min(fenceEnd, performance.now() + leaseTableIntervalMs);
      while (!haveAllAnswered() && performance.now() < readAgainAt)
        await arrival.wait(readAgainAt - performance.now());
      if (haveAllAnswered()) return true;
      if (performance.now() >= fenceEnd) return false;
    }
  }

  /** Undefined where the lease table cannot be read: then only waiting for the end of the fence is safe. */
  async #leaseHolders(changeId: string): Promise<string[] | undefined> {
    if (!this.#link?.leaseHolders) return [];
    return this.#link.leaseHolders(changeId).catch((error: unknown) => {
      this.#options.log.warn(
        { err: error },
        'the lease table does not answer; the write waits for the fence',
      );
      return undefined;
    });
  }

  /** Another node has applied a change that was committed here. */
  acknowledge(change: Pick<Change, 'id' | 'scope'>, nodeId: string): void {
    const awaited = this.#awaited.get(nameOf(change));
    awaited?.nodes.add(nodeId);
    awaited?.arrival.wake();
  }

  async #pollRegularly(): Promise<void> {
    while (!this.#stopped) {
      await this.#nextPoll.wait(this.#options.fenceMs / 4);
      if (!this.#stopped) await this.#poll();
    }
  }

  async #poll(): Promise<void> {
    // The lease counts from here. Counted from the answer, it would outlast what writers read in the lease table.
    const began = performance.now();
    try {
      const { cursor, reset, changes } = await this.#link!.poll(this.#cursor);
      if (reset) for (const cache of Object.values(this.caches)) cache.flush();
      for (const change of changes) this.apply(change);
      this.#cursor = cursor;
      this.#leaseValidUntil = began + this.#options.fenceMs;
      this.figures.polls += 1;
    } catch (error) {
      this.figures.pollFailures += 1;
      if (!this.hasLease()) this.figures.fencedOut += 1;
      this.#options.log.debug({ err: error }, 'the change feed does not answer');
    }
  }
}

/** A transaction may change several scopes. */
const nameOf = ({ id, scope }: Pick<Change, 'id' | 'scope'>): string => `${id} ${scope}`;
