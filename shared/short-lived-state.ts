import type { Redis } from 'ioredis';
import { LRUCache } from 'lru-cache';
import { StrataError } from './errors.ts';

/**
 * State that every node must see for minutes and that nobody misses after a restart: challenges, sign-in states, one-time codes.
 * In Redis where there is one, else in this process. Throws `service_unavailable` where Redis is away.
 */
export interface ShortLived {
  readonly redis: Redis | undefined;
  readonly put: (key: string, value: unknown, ttlSeconds: number) => Promise<void>;
  /** Gives the value to exactly one taker; null where it is unknown, taken or expired. */
  readonly take: <T>(key: string) => Promise<T | null>;
}

export function createShortLived(redis?: Redis): ShortLived {
  const memory = new LRUCache<string, string>({ max: 100_000 });
  if (!redis) {
    return {
      redis,
      async put(key, value, ttlSeconds) {
        memory.set(key, JSON.stringify(value), { ttl: ttlSeconds * 1000 });
      },
      async take(key) {
        const found = memory.get(key);
        memory.delete(key);
        return found === undefined ? null : JSON.parse(found);
      },
    };
  }
  const away = (cause: unknown): never => {
    throw new StrataError(
      'service_unavailable',
      'Short-lived state is unavailable: Redis does not answer. Try again.',
      { cause },
    );
  };
  return {
    redis,
    async put(key, value, ttlSeconds) {
      await redis.set(`strata:${key}`, JSON.stringify(value), 'EX', ttlSeconds).catch(away);
    },
    async take(key) {
      const found = await redis.getdel(`strata:${key}`).catch(away);
      return found === null ? null : JSON.parse(found);
    },
  };
}
