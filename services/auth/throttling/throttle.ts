/**
 * Slows guessing: after too many failures of one key, attempts are refused with 429 until a wait is
 * over.
 */
import type { Logger } from 'pino';
import { codeOf, statusOf, StrataError } from '../../../shared/errors.ts';
import {
  failedAttemptsInMemory,
  failedAttemptsInRedis,
  type FailedAttempts,
} from './stores/failed-attempts.ts';
import { sharedCounts } from './stores/shared-counts.ts';
import type { RedisClient } from '../../../shared/concurrency/redis.ts';
import { Turns } from '../../../shared/concurrency/turns.ts';

/** Keys are made by `throttleKey`. */
export type Throttle = ReturnType<typeof createThrottle>;

/** `queueLimit` bounds the attempts of one key that are on this node. */
export function createThrottle(redis: RedisClient | undefined, { queueLimit = 64 } = {}) {
  const inRedis = redis && failedAttemptsInRedis(redis);
  const withStore = sharedCounts<FailedAttempts>(inRedis, failedAttemptsInMemory());
  const turns = new Turns(1);

  async function begin(key: string, log: Logger): Promise<void> {
    const waitMs = await withStore(log, (store) => store.begin(key));
    requireNoWait(waitMs);
  }

  async function attempt<T>(key: string, log: Logger, work: () => Promise<T>): Promise<T> {
    await begin(key, log);
    try {
      const result = await work();
      await withStore(log, (store) => store.forgetAll(key));
      return result;
    } catch (error) {
      const wasWrongGuess = statusOf(codeOf(error)) === 401;
      if (!wasWrongGuess) await withStore(log, (store) => store.forgetOne(key));
      throw error;
    }
  }

  return {
    /**
     * Runs an attempt, or throws `rate_limited`. Only a 401 counts as a failure: nothing else says
     * that a guess was wrong. A success forgets the failures before it. Attempts of one key follow
     * each other on this node: one counts as failed while it runs, so right passwords sent at once
     * would otherwise be taken for guesses.
     */
    async attempt<T>(key: string, log: Logger, work: () => Promise<T>): Promise<T> {
      if (turns.sizeOf(key) >= queueLimit)
        throw new StrataError('service_unavailable', 'Too many attempts at once. Try again.');
      return turns.take(key, Infinity, () => attempt(key, log, work));
    },
    /** Counts something that is slowed however it ends, or throws `rate_limited`. */
    count: begin,
    /** Forgets the failures of someone who has proved in another way who they are. */
    forgive: (key: string, log: Logger) => withStore(log, (store) => store.forgetAll(key)),
  };
}

/** Throws `rate_limited` where there is time left to wait. */
export function requireNoWait(waitMs: number, why = 'Too many failed attempts.'): void {
  if (waitMs <= 0) return;
  const seconds = String(Math.ceil(waitMs / 1000));
  throw new StrataError('rate_limited', `${why} Try again in ${seconds} s.`, {
    headers: { 'retry-after': seconds },
  });
}
