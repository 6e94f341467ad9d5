/**
 * How often each key failed and until when it waits: in this node's memory, or in Redis for all
 * nodes. Waits are those of `rules/throttle.ts`; the script for Redis is given their table and
 * states no formula.
 */
import { LRUCache } from 'lru-cache';
import { upTo } from '../../../../shared/concurrency/growing-cache.ts';
import { memoryMs, waitAfter, waitsMs } from '../rules/throttle.ts';
import type { RedisClient } from '../../../../shared/concurrency/redis.ts';

/**
 * An attempt counts as failed from its beginning, so that many at once cannot get past the count.
 */
export interface FailedAttempts {
  /** Milliseconds to wait, or 0 where the attempt may continue, which then counts as a failure. */
  readonly begin: (key: string) => Promise<number>;
  /** Takes back the failure that `begin` counted: the attempt never came to a judgement. */
  readonly forgetOne: (key: string) => Promise<void>;
  readonly forgetAll: (key: string) => Promise<void>;
}

interface Failures {
  readonly count: number;
  /** Milliseconds since 1970; 0 where nobody waits. */
  readonly waitUntil: number;
}
const noFailures: Failures = { count: 0, waitUntil: 0 };

export function failedAttemptsInMemory(): FailedAttempts {
  const failuresByKey = new LRUCache<string, Failures>({ ...upTo(100_000), ttl: memoryMs });
  return {
    async begin(key) {
      const { count, waitUntil } = failuresByKey.get(key) ?? noFailures;
      const now = Date.now();
      if (waitUntil > now) return waitUntil - now;
      const failures = count + 1;
      failuresByKey.set(key, { count: failures, waitUntil: now + waitAfter(failures) });
      return 0;
    },
    async forgetOne(key) {
      const failures = failuresByKey.get(key);
      if (failures) failuresByKey.set(key, { count: failures.count - 1, waitUntil: 0 });
    },
    async forgetAll(key) {
      failuresByKey.delete(key);
    },
  };
}

/**
 * The same in one step, by the clock of Redis. Arguments: the table of waits, then how long
 * failures are remembered, all in ms. The count can be 0 here: an attempt that another node's
 * success has forgotten already may still take itself back.
 */
const beginScript = `
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local waitUntil = tonumber(redis.call('HGET', KEYS[1], 'until') or '0')
  if waitUntil > now then return waitUntil - now end
  local failures = redis.call('HINCRBY', KEYS[1], 'count', 1)
  local wait = tonumber(ARGV[math.max(1, math.min(failures, #ARGV - 1))])
  if wait > 0 then redis.call('HSET', KEYS[1], 'until', string.format('%.0f', now + wait)) end
  redis.call('PEXPIRE', KEYS[1], ARGV[#ARGV])
  return 0`;
const forgetOneScript = `
  if redis.call('EXISTS', KEYS[1]) == 1 then
    redis.call('HINCRBY', KEYS[1], 'count', -1)
    redis.call('HDEL', KEYS[1], 'until')
  end`;

export function failedAttemptsInRedis(redis: RedisClient): FailedAttempts {
  const nameOf = (key: string): string => `strata:throttle:${key}`;
  return {
    async begin(key) {
      return Number(await redis.eval(beginScript, 1, nameOf(key), ...waitsMs, memoryMs));
    },
    async forgetOne(key) {
      await redis.eval(forgetOneScript, 1, nameOf(key));
    },
    async forgetAll(key) {
      await redis.del(nameOf(key));
    },
  };
}
