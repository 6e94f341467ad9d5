/**
 * Slows a network that guesses over many accounts, and bounds how often it may use the routes that
 * a contract marks with `networkLimited`.
 *
 * | Step of a guess | Asks | Guards against |
 * |---|---|---|
 * | `admit`, before anything else | all nodes, through Redis | a flood that queues for hashing although its network waits |
 * | `guard`, when its turn to hash has come | this node's memory | guesses that were admitted together, before any had failed |
 * | `recordFailure`, afterwards | all nodes; what they count is remembered here | guesses spread over nodes |
 *
 * A guard asks no other node, because a stalled Redis would then hold up everybody's hashing. So a
 * network whose guesses come at once on several nodes gets a few more than its due: those that are
 * being hashed, and those that other nodes have hashed since this one last observed the count,
 * which it does with each failure of its own.
 */
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { upTo } from '../../../shared/concurrency/growing-cache.ts';
import { networkKey, networkMemoryMs, networkWaitMs } from './rules/throttle.ts';
import {
  networkCountsInMemory,
  networkCountsInRedis,
  type FailureAges,
  type NetworkCounts,
} from './stores/network-counts.ts';
import { sharedCounts } from './stores/shared-counts.ts';
import type { Guard } from '../passwords/password-hashing.ts';
import { requireNoWait } from './throttle.ts';
import type { RedisClient } from '../../../shared/concurrency/redis.ts';

/** Networks are given as `networkOf` names them. */
export type NetworkThrottle = ReturnType<typeof createNetworkThrottle>;

export interface LimitedCall {
  readonly action: string;
  readonly network: string;
  /** How many a minute. */
  readonly limit: number;
}

/** Moments in milliseconds since 1970, newest first. */
interface KnownFailures {
  /** On their way to the other nodes. */
  unshared: readonly number[];
  /** As all nodes counted them when this one asked last. */
  shared: readonly number[];
}

const tooManyCalls = 'Too many requests from your network.';

export function createNetworkThrottle(redis: RedisClient | undefined) {
  const inRedis = redis && networkCountsInRedis(redis);
  const withStore = sharedCounts<NetworkCounts>(inRedis, networkCountsInMemory());
  const known = new LRUCache<string, KnownFailures>({ ...upTo(100_000), ttl: networkMemoryMs });

  const knownOf = (network: string): KnownFailures =>
    known.get(network) ?? { unshared: [], shared: [] };

  function waitMs(network: string): number {
    const { unshared, shared } = knownOf(network);
    const failedAt = [...unshared, ...shared].sort((one, other) => other - one);
    return networkWaitMs(failedAt, Date.now());
  }

  function remember(network: string, ages: FailureAges, unshared: readonly number[]): void {
    const now = Date.now();
    known.set(network, { unshared, shared: ages.map((age) => now - age) });
  }

  const keyOf = (network: string): string => networkKey('network', network);

  return {
    /** Throws `rate_limited` while the network waits. */
    async admit(network: string, log: Logger): Promise<void> {
      const ages = await withStore(log, (store) => store.failures(keyOf(network), 'read'));
      remember(network, ages, knownOf(network).unshared);
      requireNoWait(waitMs(network));
    },

    /** Does not verify while the network waits, but throws `rate_limited`. */
    guard:
      (network: string): Guard =>
      async (verify) => {
        requireNoWait(waitMs(network));
        const matches = await verify();
        if (!matches) {
          const { unshared, shared } = knownOf(network);
          known.set(network, { unshared: [Date.now(), ...unshared], shared });
        }
        return matches;
      },

    /**
     * Makes a failure that the guard saw known to all nodes. Gives the wait that it brings, in
     * milliseconds; 0 for none.
     */
    async recordFailure(network: string, log: Logger): Promise<number> {
      const ages = await withStore(log, (store) => store.failures(keyOf(network), 'add'));
      remember(network, ages, knownOf(network).unshared.slice(0, -1));
      return waitMs(network);
    },

    /** Throws `rate_limited` where there were `limit` calls of the network in this minute. */
    async admitCall({ action, network, limit }: LimitedCall, log: Logger): Promise<void> {
      const key = networkKey(action, network);
      const wait = await withStore(log, (store) => store.requestWaitMs(key, limit, 'read'));
      requireNoWait(wait, tooManyCalls);
    },

    /** The same, and counts one where there were fewer. */
    async countCall({ action, network, limit }: LimitedCall, log: Logger): Promise<void> {
      const key = networkKey(action, network);
      const wait = await withStore(log, (store) => store.requestWaitMs(key, limit, 'add'));
      requireNoWait(wait, tooManyCalls);
    },
  };
}
