/**
 * This node's caches, and what keeps them coherent with the database. T is the fence time,
 * COHERENCE_FENCE_MS.
 *
 * | Part           | Protects against                                      | Bounded by, degrades to                               |
 * |----------------|-------------------------------------------------------|-------------------------------------------------------|
 * | broadcast      | (speed) a write waits for acknowledgements, not for T | lost: the feed brings the change within a poll interval |
 * | change feed    | lost broadcasts, a node that joined a moment ago      | polled every T/4 or sooner; the cursor follows snapshots, see feed.ts |
 * | lease          | a node cut off from the feed serving what it has      | T after its last good poll *began* it reads through   |
 * | fence          | answering a write while such a node still serves      | a write waits for all lease holders, at most the longest T of any; lease-table.ts |
 * | two clocks     | a lease that outlasts a suspension of the machine, in which the monotonic clock stood | where wall clock and monotonic clock part, no lease until the next poll |
 * | round trip     | writes waiting for a node that no longer hears the bus | after T without one the lease is given back, and before one there is no new lease |
 * | server         | a database that went back to an older state, or another one | everything is forgotten, the floors too; feed.ts finds it |
 * | ordinal        | a poll that is answered after a later one, whose token would pass for that | it renews nothing                 |
 * | outdated loads, floors | loads in flight while a key is dropped        | see cache.ts                                          |
 * | load ahead of the feed | a reader seeing the loaded value, then an older one from another entry of the scope | the older entries are dropped, and loaded again once |
 * | last known     | the owner or the database being away                  | the last known value, marked stale; else 503          |
 * | age of trust   | a credential that was revoked while this node is cut off | identity is the fallback for ACCESS_TOKEN_TTL_SECONDS after the last good poll began |
 */
import { LRUCache } from 'lru-cache';
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';
import type { CacheName } from '../contracts/contract.ts';
import { nameForgottenKey, settingsReplacedKey, wholeScopeKey } from '../contracts/feed.ts';
import { platformScope, tenantScope } from '../contracts/revision-scopes.ts';
import { isOutage } from '../errors.ts';
import { forgetNames } from '../commits/actor-names.ts';
import type { Change } from '../commits/commit.ts';
import { upTo } from '../concurrency/growing-cache.ts';
import { WakeableWait } from '../concurrency/wakeable-wait.ts';
import { knownNow, synchronizeClock } from '../process/synchronized-clock.ts';
import { CoherentCache } from './cache.ts';
import type { AsOf } from './floors.ts';
import type { Lease, LeaseTableRead, Leave, Poll, PollResult } from './feed.ts';
import { WriteFence } from './write-fence.ts';

export interface CoherenceOptions {
  readonly nodeId: string;
  /** T: how long a write may be delayed, and how long a lease lasts without a poll. */
  readonly fenceMs: number;
  readonly requestTimeoutMs: number;
  /**
   * Lifetime of the entries of `configuration_service` and `identity`, in minutes
   * (CACHE_DEFAULT_TTL).
   */
  readonly ttlMinutes: () => number;
  /**
   * How long after the last good poll began what is known in `identity` may be the fallback for its owner.
   */
  readonly staleIdentityMs: () => number;
  readonly log: Logger;
}

/**
 * How this node reaches the change feed and the other nodes. In embedded mode the feed is in its
 * own database and nobody listens.
 */
export interface ClusterLink {
  /** Renews the lease and reads the changes since the cursor. */
  readonly poll: (poll: Poll) => Promise<PollResult>;
  /** Gives the lease back. */
  readonly leave: (leave: Leave) => Promise<void>;
  readonly broadcast: (change: Change) => void;
  /**
   * Whether broadcasts that were sent until now have arrived here, found out within so many
   * milliseconds.
   */
  readonly hearsOthers: (withinMs: number) => Promise<boolean>;
  /** The answers of polls come over the bus, too: a node that has one hears others. */
  readonly pollsOverBus?: true;
  /**
   * The lease table, each lease with whether its holder has read the change. Only on nodes with a
   * database, which alone commit.
   */
  readonly leases?: (changeId: string) => Promise<LeaseTableRead>;
  /** Whether the server of the last poll takes writes now. Only on nodes with a database. */
  readonly isWritable?: () => Promise<boolean>;
}

const dynamicTtlMs = 5 * 60_000;
/** Polls without an answer whose tokens are remembered: the database may have any of them. */
const maxUnansweredPolls = 100;

export class Coherence {
  /** Names this process in the lease table and in acknowledgements. */
  readonly holder: string;
  readonly caches: Record<CacheName, CoherentCache>;
  /**
   * `fences`: writes that waited for all of T. `fencedOut`: polls that failed while there was no
   * lease. `flushes`: polls that could not say what was missed.
   */
  readonly counters = { polls: 0, pollFailures: 0, fences: 0, fencedOut: 0, resets: 0, flushes: 0 };
  readonly #options: CoherenceOptions;
  readonly #fence: WriteFence;
  readonly #published = new WeakMap<Change, Promise<void>>();
  readonly #listeners = new Set<(change: Change) => void>();
  readonly #resetListeners = new Set<() => void>();
  /**
   * Scope → revision up to which every change of the scope is applied here. Where it forgets a
   * scope, the scope's next load counts as ahead of the feed and drops what is older.
   */
  readonly #applied = new LRUCache<string, number>(upTo(100_000));
  readonly #nextPoll = new WakeableWait();
  #link: ClusterLink | undefined;
  #cursor: string | null = null;
  /** Which server the last good poll was answered by. */
  #server: string | undefined;
  /** How many polls were sent. */
  #pollsSent = 0;
  /** The token of the last poll that was answered, whose cursor this node has. */
  #answered: string | undefined;
  /** Of the last good poll and of those after it that were not answered. */
  #tokens: string[] = [];
  #leaseValidUntil = -Infinity;
  /** How often the lease was given back. */
  #leaseGeneration = 0;
  /** A poll was sent since it was last given back. */
  #mayHaveLease = false;
  #isCheckingHearing = false;
  /** Wall clock minus monotonic clock when the last good poll began, in milliseconds. */
  #clockDifference = 0;
  /**
   * When the last good poll began, by both clocks, in milliseconds. What is kept and was not
   * dropped was good then.
   */
  #lastGood = { monotonic: -Infinity, wall: -Infinity };
  /** When the last poll began, by both clocks, that has ended; undefined before the first. */
  #lastPoll: { readonly monotonic: number; readonly wall: number } | undefined;
  #onPublished: (ms: number) => void = () => {};
  #stopped = false;
  #polling: Promise<void> = Promise.resolve();

  constructor(options: CoherenceOptions) {
    this.#options = options;
    this.holder = `${options.nodeId} ${randomUUID()}`;
    this.#fence = new WriteFence({
      holder: this.holder,
      fenceMs: options.fenceMs,
      log: options.log,
      polledServer: () => this.#server,
      leases: () => this.#link?.leases,
    });
    const cache = (ttlMs: () => number, mayServeStale = (_now: number): boolean => true) =>
      new CoherentCache({
        ttlMs,
        maxEntries: 100_000,
        maxBytes: 256 * 1024 * 1024,
        floorTtlMs: 2 * (options.fenceMs + options.requestTimeoutMs),
        hasLease: (now) => this.hasLease(now),
        isOutage,
        mayServeStale,
        onLoaded: (asOf) => this.#dropWhatIsOlder(asOf),
      });
    const ttlMs = () => options.ttlMinutes() * 60_000;
    this.caches = {
      configuration_service: cache(ttlMs),
      dynamic_config_service: cache(() => dynamicTtlMs),
      identity: cache(ttlMs, (now) => this.#knownGoodAgeMs(now) <= options.staleIdentityMs()),
    };
  }

  /** By whichever clock says more: while a machine sleeps its monotonic clock stands. */
  #knownGoodAgeMs(now: number): number {
    const { monotonic, wall } = this.#lastGood;
    return Math.max(now - monotonic, Date.now() - wall);
  }

  /**
   * Whether what arrives now may have waited in the connection to NATS for longer than a request
   * lasts: the node stood still, or heard nothing. A poll begins with a lease, or with a round trip.
   */
  hasStoodStill(): boolean {
    if (!this.#lastPoll) return false;
    const { fenceMs, requestTimeoutMs } = this.#options;
    const { monotonic, wall } = this.#lastPoll;
    const sinceMs = Math.max(performance.now() - monotonic, Date.now() - wall);
    return sinceMs > Math.max(fenceMs, requestTimeoutMs);
  }

  /**
   * Whether what was given to the bus then, by `knownNow`, was on its way for longer than a request
   * lasts. Clocks of nodes are known to within a poll, for which the fence is enough.
   */
  wasHeldUp(sentAt: number | undefined): boolean {
    const now = knownNow();
    const { fenceMs, requestTimeoutMs } = this.#options;
    return sentAt !== undefined && now !== undefined && now - sentAt > fenceMs + requestTimeoutMs;
  }

  /** Whether this node may serve from memory at `now` (performance.now()). */
  hasLease(now = performance.now()): boolean {
    if (now >= this.#leaseValidUntil) return false;
    // While a machine sleeps its monotonic clock stands and its wall clock does not.
    const drift = Date.now() - now - this.#clockDifference;
    return Math.abs(drift) < this.#clockTolerance();
  }

  /**
   * Whether what this node has just read in its database may be old, because others write to
   * another server. A lease says that a poll has written to this one; without one it is asked.
   */
  async mayHaveReadOldRows(): Promise<boolean> {
    const isWritable = this.#link?.isWritable;
    return isWritable !== undefined && !this.hasLease() && !(await isWritable());
  }

  /**
   * A lease ends by so much before T that neither this nor clocks of unequal speed make it last
   * longer.
   */
  #clockTolerance(): number {
    return this.#options.fenceMs / 20;
  }

  /** Since the last good poll began. Infinite before the first. */
  pollAgeMs(): number {
    return performance.now() - (this.#leaseValidUntil - this.#leaseMs());
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
    await this.#leave();
  }

  async #leave(): Promise<void> {
    this.#leaseValidUntil = -Infinity;
    this.#leaseGeneration += 1;
    if (!this.#mayHaveLease) return;
    this.#mayHaveLease = false;
    // Whether this arrives is not known: the next poll may find the lease or none.
    this.#answered = undefined;
    await this.#link
      ?.leave({ holder: this.holder, tokens: this.#tokens })
      .catch((error: unknown) =>
        this.#options.log.debug({ err: error }, 'the caching lease runs out by itself'),
      );
  }

  /** Leases that ended long ago, for whoever prunes the feed. */
  forgottenLeases(): Pick<Lease, 'holder' | 'token'>[] {
    return this.#fence.forgottenLeases();
  }

  /** For when broadcasts may have been lost. */
  pollNow(): void {
    this.#nextPoll.wake();
  }

  /**
   * Calls the listener with every change once it is applied here: perhaps twice, and in no
   * particular order between scopes. Returns how to stop listening.
   */
  onChange(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Calls the listener when the database may have gone back to an older state, so that revisions
   * that were observed may be gone, and when changes were missed that nobody can tell any more.
   * Returns how to stop listening.
   */
  onReset(listener: () => void): () => void {
    this.#resetListeners.add(listener);
    return () => this.#resetListeners.delete(listener);
  }

  /**
   * Calls the one listener after each change committed here, with the milliseconds until no node
   * could answer from before it.
   */
  onPublished(listener: (ms: number) => void): void {
    this.#onPublished = listener;
  }

  /**
   * Drops what the change made outdated here. Applying a change again does nothing more than
   * calling the listeners.
   */
  apply(change: Change): void {
    const { keys, scope, revision } = change;
    this.caches.configuration_service.drop(keys, scope, revision);
    this.caches.identity.drop(keys, scope, revision);
    if (keys.includes(settingsReplacedKey)) this.caches.identity.flush();
    // Effective values hold defaults of the environment, and whoever is told that these have moved
    // must not read the old ones.
    if (keys.includes(settingsReplacedKey)) this.caches.dynamic_config_service.flush();
    if (keys.includes(nameForgottenKey)) {
      forgetNames();
      this.caches.configuration_service.flush();
    }
    if (keys.includes(wholeScopeKey))
      for (const cache of Object.values(this.caches)) cache.dropScope(scope, revision);
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
   * A load may include revisions whose changes have not arrived here. Whoever has seen its value
   * must not get an older one from another entry of the scope afterwards, so everything older of
   * the scope is dropped.
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
   * Makes committed changes known: drops here, broadcasts, and waits until every node that may
   * cache has dropped too, at most T after the commit. A node that has said nothing for T has no
   * lease any more and serves nothing from memory. T is the longest of any lease holder.
   */
  async publish(changes: readonly Change[]): Promise<void> {
    await Promise.all(changes.map((change) => this.#publishOnce(change)));
  }

  /**
   * Writes that were committed together are one change, which each of them publishes and waits for.
   */
  #publishOnce(change: Change): Promise<void> {
    const known = this.#published.get(change);
    if (known) return known;
    const published = this.#publish(change);
    this.#published.set(change, published);
    return published;
  }

  async #publish(change: Change): Promise<void> {
    const began = performance.now();
    try {
      const inTime = await this.#fence.pass(change, () => {
        this.apply(change);
        this.#link?.broadcast(change);
      });
      if (!inTime) this.counters.fences += 1;
    } finally {
      this.#onPublished(performance.now() - began);
    }
  }

  /** Another node has applied a change that was committed here. */
  acknowledge(change: Pick<Change, 'id' | 'scope'>, holder: string): void {
    this.#fence.acknowledge(change, holder);
  }

  async #pollRegularly(): Promise<void> {
    while (!this.#stopped) {
      await this.#nextPoll.wait(untilNextPoll(Date.now(), this.#options.fenceMs / 4));
      if (!this.#stopped) await this.#poll();
    }
  }

  /** What a lease lasts after its poll began, in milliseconds. */
  #leaseMs(): number {
    return this.#options.fenceMs - this.#clockTolerance();
  }

  async #poll(): Promise<void> {
    const link = this.#link!;
    const { fenceMs } = this.#options;
    if (this.hasLease()) this.#checkHearing();
    else if (!(await link.hearsOthers(fenceMs))) return this.#giveUpLease();
    const generation = this.#leaseGeneration;
    // The lease counts from here. Counted from the answer, it would outlast what writers read in
    // the lease table.
    const began = performance.now();
    const clockDifference = Date.now() - began;
    const token = randomUUID();
    this.#pollsSent += 1;
    this.#mayHaveLease = true;
    this.#tokens = [...this.#tokens, token].slice(-maxUnansweredPolls);
    try {
      const { holder } = this;
      const answer = await link.poll({
        holder,
        token,
        ordinal: this.#pollsSent,
        ...(this.#answered !== undefined && { answered: this.#answered }),
        fence_ms: fenceMs,
        cursor: this.#cursor,
        ...(this.#server !== undefined && { server: this.#server }),
      });
      if (answer.at !== undefined) synchronizeClock(answer.at, began + clockDifference, Date.now());
      this.#catchUp(answer);
      this.#answered = token;
      this.#lastGood = { monotonic: began, wall: began + clockDifference };
      // It was given back meanwhile, perhaps after this poll had renewed it.
      if (generation !== this.#leaseGeneration) return;
      this.#tokens = [token];
      this.#leaseValidUntil = began + this.#leaseMs();
      this.#clockDifference = clockDifference;
      this.counters.polls += 1;
      await this.#fence.observeLeases(fenceMs / 4);
    } catch (error) {
      this.counters.pollFailures += 1;
      if (!this.hasLease()) this.counters.fencedOut += 1;
      this.#options.log.debug({ err: error }, 'the change feed does not answer');
    } finally {
      this.#lastPoll = { monotonic: began, wall: began + clockDifference };
    }
  }

  /** Applies what a poll brought, or begins again where it cannot say what was missed. */
  #catchUp({ cursor, complete, changes, server }: PollResult): void {
    const isFirst = this.#cursor === null;
    if (!isFirst && this.#server !== server) this.#reset();
    else if (!isFirst && !complete) this.#forgetMissed();
    else for (const change of changes) this.apply(change);
    this.#cursor = cursor;
    this.#server = server;
  }

  /** The feed no longer has all that was missed: nothing kept here is known to be current. */
  #forgetMissed(): void {
    this.counters.flushes += 1;
    this.#options.log.warn(
      'the change feed no longer has what this node missed; the caches are empty',
    );
    for (const cache of Object.values(this.caches)) cache.flush();
    for (const listener of this.#resetListeners) listener();
  }

  /** Forgets everything that was learned from the database, revisions included. */
  #reset(): void {
    this.counters.resets += 1;
    this.#options.log.warn(
      'the database was replaced, restarted or restored; the caches are empty',
    );
    this.#applied.clear();
    for (const cache of Object.values(this.caches)) cache.reset();
    for (const listener of this.#resetListeners) listener();
  }

  /**
   * Beside the polls, so that these take no longer on a slow bus. Not where a poll that is answered
   * shows it: without an answer the lease runs out as early as it would be given back.
   */
  #checkHearing(): void {
    if (this.#isCheckingHearing || this.#link!.pollsOverBus) return;
    this.#isCheckingHearing = true;
    void this.#link!.hearsOthers(this.#options.fenceMs).then(async (isHearing) => {
      this.#isCheckingHearing = false;
      if (!isHearing && !this.#stopped) await this.#giveUpLease();
    });
  }

  /** A node that does not hear the bus reads through, and writers need not wait for it. */
  async #giveUpLease(): Promise<void> {
    this.counters.pollFailures += 1;
    if (!this.hasLease()) this.counters.fencedOut += 1;
    this.#options.log.debug('the bus does not answer; the caching lease is given back');
    await this.#leave();
  }
}

/**
 * How long to wait with the next poll, in milliseconds, by a wall clock that says `now`: at most
 * the interval. All nodes poll when their clocks pass its multiples, so that who answers them can
 * do so together. Clocks that differ, stand or jump cost some of that, and at most twice as many
 * polls.
 */
export const untilNextPoll = (now: number, intervalMs: number): number =>
  Math.max(intervalMs / 2, intervalMs - (now % intervalMs));
