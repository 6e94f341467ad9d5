/**
 * This node's caches, and what keeps them coherent with the database.
 *
 * | Part        | Protects against                                     | Degrades to / is bounded by                          |
 * |-------------|------------------------------------------------------|------------------------------------------------------|
 * | broadcast   | (speed) a write waits for acknowledgements, not for T | lost → the feed within a poll interval                |
 * | change feed | lost broadcasts, a node that joined a moment ago      | polled every T/4; cursor by snapshot                  |
 * | lease       | a node cut off from the feed serving what it has      | T after its last good poll *began* it reads through   |
 * | fence       | answering a write while such a node still serves      | a write waits for all lease holders, at most T        |
 * | outdated loads, floors | loads in flight while a key is dropped     | see cache.ts                                         |
 * | observation | a load that is ahead of the feed: the node's other entries of that scope would go back in time | they count as dropped; loaded again once |
 * | fail-static | the owner or the database away                        | last known good value, marked stale; else 503         |
 */
import { LRUCache } from 'lru-cache';
import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';
import type { CacheName } from '../../contracts/contract.ts';
import { platformScope, tenantScope } from '../../contracts/revision-scopes.ts';
import { isOutage } from '../../errors.ts';
import type { Change } from '../../commits/commit.ts';
import { WakeableWait } from '../../wakeable-wait.ts';
import { CoherentCache } from './cache.ts';
import type { AsOf } from './floors.ts';
import type { Poll } from './feed.ts';

export interface CoherenceOptions {
  readonly nodeId: string;
  /** T: how long a write may be delayed, and a node trusted, without contact (COHERENCE_FENCE_MS). */
  readonly fenceMs: number;
  readonly requestTimeoutMs: number;
  /** Lifetime of `configuration_service` entries, in minutes (CACHE_DEFAULT_TTL). */
  readonly ttlMinutes: () => number;
  readonly log: Logger;
}

/** How this node reaches the others; embedded mode has none of it. */
export interface Link {
  readonly poll: (cursor: string | null) => Promise<Poll>;
  readonly leave: () => Promise<void>;
  readonly broadcast: (change: Change) => void;
  /** Lease holders whose cursor is not past the change, only on nodes that write. */
  readonly holders?: (id: string) => Promise<string[]>;
}

const dynamicTtlMs = 5 * 60_000;

export class Coherence {
  readonly caches: Record<CacheName, CoherentCache>;
  readonly figures = { polls: 0, pollFailures: 0, fences: 0, fencedOut: 0 };
  readonly #options: CoherenceOptions;
  readonly #waiting = new Map<string, (nodeId: string) => void>();
  readonly #listeners = new Set<(change: Change) => void>();
  /** Scope → revision up to which every change is applied here. Where a scope is forgotten, its next load drops what is left of it. */
  readonly #applied = new LRUCache<string, number>({ max: 100_000 });
  #link: Link | undefined;
  #cursor: string | null = null;
  #leaseValidUntil = -Infinity;
  #published: (ms: number) => void = () => {};
  #stopped = false;
  readonly #nextPoll = new WakeableWait();
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
        onLoaded: (asOf) => this.#observe(asOf),
      });
    const minutes = () => options.ttlMinutes() * 60_000;
    this.caches = {
      configuration_service: cache(minutes),
      dynamic_config_service: cache(() => dynamicTtlMs),
      identity: cache(minutes),
    };
  }

  /** Whether this node may serve from memory. */
  hasLease(now = performance.now()): boolean {
    return now < this.#leaseValidUntil;
  }
  pollAgeMs(): number {
    return performance.now() - (this.#leaseValidUntil - this.#options.fenceMs);
  }

  /** Connects to the feed; resolves once the first poll has succeeded or failed. */
  async start(link: Link): Promise<void> {
    this.#link = link;
    await this.#poll();
    this.#polling = this.#loop();
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

  /** Polls at once, because broadcasts were lost. */
  catchUp(): void {
    this.#nextPoll.wake();
  }

  /** Every change, once it is applied here; in no particular order between scopes. Returns how to stop listening. */
  onChange(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Told of every change committed here, and how long it took until no node could answer from before it. */
  onPublished(listener: (ms: number) => void): void {
    this.#published = listener;
  }

  apply(change: Change): void {
    this.caches.configuration_service.drop(change.keys, change.scope, change.revision);
    this.caches.identity.drop(change.keys, change.scope, change.revision);
    if (change.scope === platformScope || change.scope.startsWith(tenantScope(''))) {
      this.caches.dynamic_config_service.dropScope(change.scope, change.revision);
    }
    if (change.revision === (this.#applied.get(change.scope) ?? NaN) + 1)
      this.#applied.set(change.scope, change.revision);
    for (const listener of this.#listeners) listener(change);
  }

  #observe(asOf: AsOf): void {
    for (const [scope, revision] of Object.entries(asOf)) {
      if (revision <= (this.#applied.get(scope) ?? -1)) continue;
      this.#applied.set(scope, revision);
      for (const cache of Object.values(this.caches)) cache.dropScope(scope, revision);
    }
  }

  /**
   * Makes committed changes known: drops here, broadcasts, and waits until every node that may cache has dropped too,
   * at most T after the commit. After T a silent node's lease has run out and it serves nothing from memory.
   */
  async publish(changes: readonly Change[]): Promise<void> {
    await Promise.all(changes.map((change) => this.#publish(change)));
  }

  async #publish(change: Change): Promise<void> {
    const began = performance.now();
    const fence = began + this.#options.fenceMs;
    const id = `${change.id} ${change.scope}`;
    const acknowledged = new Set([this.#options.nodeId]);
    const acknowledgement = new WakeableWait();
    this.#waiting.set(id, (nodeId) => {
      acknowledged.add(nodeId);
      acknowledgement.wake();
    });
    this.apply(change);
    this.#link?.broadcast(change);
    try {
      for (;;) {
        const holders = await this.#holders(change.id);
        const missing = (): boolean =>
          holders === undefined || holders.some((node) => !acknowledged.has(node));
        // Acknowledgements wake; the lease table is asked again meanwhile, for nodes that saw the change in the feed or left.
        const again = Math.min(fence, performance.now() + 200);
        while (missing() && performance.now() < again)
          await acknowledgement.wait(again - performance.now());
        // Nobody joins the holders: a lease renewed after they were asked belongs to a poll that reads this change.
        if (!missing()) break;
        if (performance.now() >= fence) {
          this.figures.fences += 1;
          break;
        }
      }
    } finally {
      this.#waiting.delete(id);
      this.#published(performance.now() - began);
    }
  }

  /** Undefined where the lease table can't be read: then only the fence is safe. */
  async #holders(id: string): Promise<string[] | undefined> {
    if (!this.#link?.holders) return [];
    return this.#link.holders(id).catch((error: unknown) => {
      this.#options.log.warn(
        { err: error },
        'the lease table does not answer; the write waits for the fence',
      );
      return undefined;
    });
  }

  acknowledge(change: Pick<Change, 'id' | 'scope'>, nodeId: string): void {
    this.#waiting.get(`${change.id} ${change.scope}`)?.(nodeId);
  }

  async #loop(): Promise<void> {
    while (!this.#stopped) {
      await this.#nextPoll.wait(this.#options.fenceMs / 4);
      if (!this.#stopped) await this.#poll();
    }
  }

  async #poll(): Promise<void> {
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
