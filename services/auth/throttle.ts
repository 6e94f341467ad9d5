import type { Redis } from 'ioredis';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { errorTable } from '../../shared/contracts/error-codes.ts';
import { codeOf, StrataError } from '../../shared/errors.ts';
import { firstWaitMs, freeFailures, longestWaitMs, memoryMs, waitAfter } from './rules/throttle.ts';

/** Failures per key. An attempt counts as failed from its beginning, so that many at once cannot get past the count. */
interface Failures {
  /** Milliseconds to wait, or 0 where the attempt may go on, which then counts. */
  readonly begin: (key: string) => Promise<number>;
  /** The attempt was not a failure: it succeeded, or never came to a judgement. */
  readonly forget: (key: string, which: 'this' | 'all') => Promise<void>;
}

function inMemory(): Failures {
  const known = new LRUCache<string, { count: number; until: number }>({
    max: 100_000,
    ttl: memoryMs,
  });
  return {
    async begin(key) {
      const { count, until } = known.get(key) ?? { count: 0, until: 0 };
      const now = Date.now();
      if (until > now) return until - now;
      known.set(key, { count: count + 1, until: now + waitAfter(count + 1) });
      return 0;
    },
    async forget(key, which) {
      const found = known.get(key);
      if (which === 'all') known.delete(key);
      else if (found) known.set(key, { count: found.count - 1, until: 0 });
    },
  };
}

/** The same with Redis' clock, in one step each. */
const beginScript = `
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local untilMs = tonumber(redis.call('HGET', KEYS[1], 'until') or '0')
  if untilMs > now then return untilMs - now end
  local count = redis.call('HINCRBY', KEYS[1], 'count', 1)
  if count >= tonumber(ARGV[1]) then
    local wait = math.min(tonumber(ARGV[3]), tonumber(ARGV[2]) * 2 ^ math.min(count - ARGV[1], 20))
    redis.call('HSET', KEYS[1], 'until', string.format('%.0f', now + wait))
  end
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  return 0`;
const forgetScript = `
  if redis.call('EXISTS', KEYS[1]) == 1 then
    redis.call('HINCRBY', KEYS[1], 'count', -1)
    redis.call('HDEL', KEYS[1], 'until')
  end`;

function inRedis(redis: Redis): Failures {
  const name = (key: string): string => `strata:throttle:${key}`;
  return {
    begin: async (key) =>
      Number(
        await redis.eval(
          beginScript,
          1,
          name(key),
          freeFailures,
          firstWaitMs,
          longestWaitMs,
          memoryMs,
        ),
      ),
    async forget(key, which) {
      if (which === 'all') await redis.del(name(key));
      else await redis.eval(forgetScript, 1, name(key));
    },
  };
}

export type Throttle = ReturnType<typeof createThrottle>;

/**
 * Slows guessing. While Redis is away each node counts on its own: refusing everyone would make Redis as vital as the database,
 * and admitting everyone would let whoever can stop Redis guess freely.
 */
export function createThrottle(redis: Redis | undefined, { waiting = 64 } = {}) {
  const own = inMemory();
  const shared = redis && inRedis(redis);
  const lines = new Map<string, Promise<unknown>[]>();

  async function failures<T>(log: Logger, work: (store: Failures) => Promise<T>): Promise<T> {
    if (!shared) return work(own);
    try {
      return await work(shared);
    } catch (error) {
      log.warn({ err: error }, 'Redis is away: this node counts failed sign-ins on its own');
      return work(own);
    }
  }

  /** Attempts of one key follow each other on this node, so that right passwords sent at once are not taken for guesses. */
  async function inLine<T>(key: string, work: () => Promise<T>): Promise<T> {
    const line = lines.get(key) ?? [];
    if (line.length >= waiting)
      throw new StrataError('service_unavailable', 'Too many attempts at once. Try again.');
    const mine = Promise.allSettled(line.slice(-1)).then(work);
    line.push(mine);
    lines.set(key, line);
    try {
      return await mine;
    } finally {
      line.shift();
      if (line.length === 0) lines.delete(key);
    }
  }

  return {
    /** Runs an attempt, or throws `rate_limited`. Only a 401 counts as a failure; a success forgets the earlier ones. */
    attempt: <T>(key: string, log: Logger, work: () => Promise<T>): Promise<T> =>
      inLine(key, async () => {
        await refuseEarly(await failures(log, (store) => store.begin(key)));
        try {
          const result = await work();
          await failures(log, (store) => store.forget(key, 'all'));
          return result;
        } catch (error) {
          if (errorTable[codeOf(error)][0] !== 401)
            await failures(log, (store) => store.forget(key, 'this'));
          throw error;
        }
      }),

    /** Forgets the failures, of someone who has proven otherwise who they are. */
    forgive: (key: string, log: Logger): Promise<void> =>
      failures(log, (store) => store.forget(key, 'all')),

    /** Counts something that is slowed however it ends. */
    count: async (key: string, log: Logger): Promise<void> =>
      refuseEarly(await failures(log, (store) => store.begin(key))),
  };
}

function refuseEarly(waitMs: number): void {
  if (waitMs <= 0) return;
  const seconds = String(Math.ceil(waitMs / 1000));
  throw new StrataError('rate_limited', `Too many failed attempts. Try again in ${seconds} s.`, {
    headers: { 'retry-after': seconds },
  });
}
