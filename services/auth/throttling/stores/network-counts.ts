/**
 * What all nodes count of a network: when its last failed sign-ins were, and how many requests it
 * made of a kind in this minute. In Redis, or in this node's memory. What follows from failures is
 * in `rules/throttle.ts`.
 */
import { LRUCache } from 'lru-cache';
import { upTo } from '../../../../shared/concurrency/growing-cache.ts';
import { networkFailuresRemembered, networkMemoryMs } from '../rules/throttle.ts';
import type { RedisClient } from '../../../../shared/concurrency/redis.ts';

/**
 * How long ago the last failures were, in milliseconds, the latest first. Ages, because each store
 * has a clock of its own.
 */
export type FailureAges = readonly number[];

export interface NetworkCounts {
  readonly failures: (key: string) => Promise<FailureAges>;
  /** Counts one more, which is among those that it gives. */
  readonly addFailure: (key: string) => Promise<FailureAges>;
  /**
   * The milliseconds until this minute is over, where there were `limit` requests in it; else 0.
   */
  readonly requestWaitMs: (key: string, limit: number) => Promise<number>;
  /** The same, and counts one more where it is 0. */
  readonly countRequest: (key: string, limit: number) => Promise<number>;
}

const minuteMs = 60_000;

interface Minute {
  readonly count: number;
  /** Milliseconds since 1970. */
  readonly until: number;
}

export function networkCountsInMemory(): NetworkCounts {
  const failedAt = new LRUCache<string, readonly number[]>({
    ...upTo(100_000),
    ttl: networkMemoryMs,
  });
  const requests = new LRUCache<string, Minute>({ ...upTo(100_000), ttl: minuteMs });
  const agesOf = (key: string): FailureAges =>
    (failedAt.get(key) ?? []).map((moment) => Date.now() - moment);
  function minuteOf(key: string): Minute {
    const now = Date.now();
    const known = requests.get(key);
    return known && known.until > now ? known : { count: 0, until: now + minuteMs };
  }
  const waitMs = ({ count, until }: Minute, limit: number): number =>
    count >= limit ? until - Date.now() : 0;
  return {
    failures: async (key) => agesOf(key),
    async addFailure(key) {
      const moments = [Date.now(), ...(failedAt.get(key) ?? [])];
      failedAt.set(key, moments.slice(0, networkFailuresRemembered));
      return agesOf(key);
    },
    requestWaitMs: async (key, limit) => waitMs(minuteOf(key), limit),
    async countRequest(key, limit) {
      const minute = minuteOf(key);
      const wait = waitMs(minute, limit);
      if (wait === 0) requests.set(key, { ...minute, count: minute.count + 1 });
      return wait;
    },
  };
}

/**
 * The ages of the failures, by the clock of Redis; `ARGV[1]` adds one, remembering `ARGV[2]` of
 * them for `ARGV[3]` ms.
 */
const failuresScript = `
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  if ARGV[1] == 'add' then
    redis.call('LPUSH', KEYS[1], string.format('%.0f', now))
    redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
  end
  local ages = {}
  for index, moment in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do ages[index] = now - moment end
  return ages`;
/**
 * The milliseconds to wait where there were `ARGV[2]` requests; else 0, and `ARGV[1]` counts one,
 * for a minute of `ARGV[3]` ms.
 */
const requestScript = `
  local left = redis.call('PTTL', KEYS[1])
  if left > 0 and tonumber(redis.call('GET', KEYS[1])) >= tonumber(ARGV[2]) then return left end
  if ARGV[1] == 'add' then
    redis.call('INCR', KEYS[1])
    if left <= 0 then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
  end
  return 0`;

export function networkCountsInRedis(redis: RedisClient): NetworkCounts {
  const nameOf = (key: string): string => `strata:throttle:${key}`;
  const failures = async (key: string, step: 'add' | 'read'): Promise<FailureAges> => {
    const bounds = [networkFailuresRemembered, networkMemoryMs];
    const ages = await redis.eval(failuresScript, 1, nameOf(key), step, ...bounds);
    return (ages as unknown[]).map(Number);
  };
  const requestWaitMs = async (key: string, step: 'add' | 'read', limit: number): Promise<number> =>
    Number(await redis.eval(requestScript, 1, nameOf(key), step, limit, minuteMs));
  return {
    failures: (key) => failures(key, 'read'),
    addFailure: (key) => failures(key, 'add'),
    requestWaitMs: (key, limit) => requestWaitMs(key, 'read', limit),
    countRequest: (key, limit) => requestWaitMs(key, 'add', limit),
  };
}
