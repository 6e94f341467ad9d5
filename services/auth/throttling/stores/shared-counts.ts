/** Counts that all nodes share in Redis where there is one. */
import type { Logger } from 'pino';

/** Runs work with the store that counts now. */
export type WithStore<Store> = <T>(log: Logger, work: (store: Store) => Promise<T>) => Promise<T>;

/**
 * While Redis is away each node counts on its own. Refusing everyone would make Redis as vital as
 * the database; admitting everyone would let whoever can stop Redis guess freely.
 */
export function sharedCounts<Store>(inRedis: Store | undefined, inMemory: Store): WithStore<Store> {
  return async (log, work) => {
    if (!inRedis) return work(inMemory);
    try {
      return await work(inRedis);
    } catch (error) {
      log.warn({ err: error }, 'Redis is away: this node counts failed sign-ins on its own');
      return work(inMemory);
    }
  };
}
