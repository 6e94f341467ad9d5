/**
 * State that every node must see for minutes and that nobody misses after a restart: challenges,
 * pending sign-ins, one-time links. In Redis where there is one, else in this process.
 */
import { LRUCache } from 'lru-cache';
import { StrataError } from '../errors.ts';
import { upTo } from './growing-cache.ts';
import type { RedisClient } from './redis.ts';

/** Values go through JSON. Throws `service_unavailable` where Redis is away. */
export interface ShortLivedState {
  /** For whoever needs more of Redis than this; absent where there is none. */
  readonly redis: RedisClient | undefined;
  readonly put: (key: string, value: unknown, ttlSeconds: number) => Promise<void>;
  /** The value, which stays; null where `take` would give null. */
  readonly peek: <T>(key: string) => Promise<T | null>;
  /**
   * Gives the value to exactly one taker; null where it is unknown, taken or expired. `T` is what
   * was put under the key: whoever puts and takes keep to one type.
   */
  readonly take: <T>(key: string) => Promise<T | null>;
}

export const createShortLivedState = (redis?: RedisClient): ShortLivedState =>
  redis ? inRedis(redis) : inMemory();

function inMemory(): ShortLivedState {
  const texts = new LRUCache<string, string>(upTo(100_000));
  return {
    redis: undefined,
    async put(key, value, ttlSeconds) {
      texts.set(key, JSON.stringify(value), { ttl: ttlSeconds * 1000 });
    },
    async peek(key) {
      const text = texts.get(key);
      return text === undefined ? null : JSON.parse(text);
    },
    async take(key) {
      const text = texts.get(key);
      texts.delete(key);
      return text === undefined ? null : JSON.parse(text);
    },
  };
}

function inRedis(redis: RedisClient): ShortLivedState {
  const nameOf = (key: string): string => `strata:${key}`;
  const fail = (cause: unknown): never => {
    throw new StrataError(
      'service_unavailable',
      'Short-lived state is unavailable: Redis does not answer. Try again.',
      { cause },
    );
  };
  return {
    redis,
    async put(key, value, ttlSeconds) {
      await redis.set(nameOf(key), JSON.stringify(value), 'EX', ttlSeconds).catch(fail);
    },
    async peek(key) {
      const text = await redis.get(nameOf(key)).catch(fail);
      return text === null ? null : JSON.parse(text);
    },
    async take(key) {
      const text = await redis.getdel(nameOf(key)).catch(fail);
      return text === null ? null : JSON.parse(text);
    },
  };
}
