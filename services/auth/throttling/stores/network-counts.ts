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

/** `add` counts one more. */
type Step = 'add' | 'read';

export interface NetworkCounts {
  /** With the one that is added. */
  readonly failures: (key: string, step: Step) => Promise<FailureAges>;
  /**
   * The milliseconds until this minute is over, where there were `limit` requests in it; else 0,
   * and only then one is added.
   */
  readonly requestWaitMs: (key: string, limit: number, step: Step) => Promise<number>;
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
  function minuteOf(key: string): Minute {
    const now = Date.now();
    const known = requests.get(key);
    return known && known.until > now ? known : { count: 0, until: now + minuteMs };
  }

  return {
    async failures(key, step) {
      const added = step === 'add' ? [Date.now()] : [];
      const moments = [...added, ...(failedAt.get(key) ?? [])].slice(0, networkFailuresRemembered);
      if (step === 'add') failedAt.set(key, moments);
      return moments.map((moment) => Date.now() - moment);
    },
    async requestWaitMs(key, limit, step) {
      const minute = minuteOf(key);
      if (minute.count >= limit) return minute.until - Date.now();
      if (step === 'add') requests.set(key, { ...minute, count: minute.count + 1 });
      return 0;
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
  return {
    async failures(key, step) {
      const bounds = [networkFailuresRemembered, networkMemoryMs];
      const ages = await redis.eval(failuresScript, 1, nameOf(key), step, ...bounds);
      return (ages as unknown[]).map(Number);
    },
    requestWaitMs: async (key, limit, step) =>
      Number(await redis.eval(requestScript, 1, nameOf(key), step, limit, minuteMs)),
  };
}
