/**
 * Challenges, pending sign-ins and links are taken once. Redis answers before its replicas have what
 * it did: after a failover it may give a value again that was taken before. What was taken is in the
 * database, which decides.
 *
 * | Lost with a failover of | What follows                                                        |
 * |-------------------------|---------------------------------------------------------------------|
 * | Redis: that it was put  | unknown: whoever began begins again                                  |
 * | Redis: that it was taken | the row refuses it                                                  |
 * | PostgreSQL: the row     | Redis does not have the value any more                               |
 */
import { randomUUID } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import type { ShortLivedState } from '../../../shared/concurrency/short-lived-state.ts';
import type { Sweep } from '../../../shared/database/sweeper.ts';

interface Kept<T> {
  /** Of this value alone, whatever is put under its key later. */
  readonly id: string;
  readonly value: T;
  readonly ttlSeconds: number;
}

/**
 * Whether this stands for something that is taken for the first time, on whichever node; it could
 * be taken again for `seconds`.
 */
export async function isFirstUse(
  manager: EntityManager,
  id: string,
  seconds: number,
): Promise<boolean> {
  const first = await manager.query<unknown[]>(
    `INSERT INTO auth.taken_values (id, until) VALUES ($1, now() + make_interval(secs => $2))
     ON CONFLICT (id) DO NOTHING RETURNING id`,
    [id, seconds],
  );
  return first.length > 0;
}

/** The same, each value taken once whatever Redis forgets. */
export const takenOnce = (shortLived: ShortLivedState, db: DataSource): ShortLivedState => ({
  redis: shortLived.redis,
  put: (key, value, ttlSeconds) =>
    shortLived.put(key, { id: randomUUID(), value, ttlSeconds }, ttlSeconds),
  async peek<T>(key: string) {
    const kept = await shortLived.peek<Kept<T>>(key);
    return kept && kept.value;
  },
  async take<T>(key: string) {
    const kept = await shortLived.take<Kept<T>>(key);
    if (!kept) return null;
    // Twice as long as Redis can have it, whose clock is another one.
    const isFirst = await isFirstUse(db.manager, kept.id, kept.ttlSeconds * 2);
    return isFirst ? kept.value : null;
  },
});

export const removeTakenValues: Sweep = async (manager, most) => {
  const [, taken_values] = await manager.query<[unknown, number]>(
    `DELETE FROM auth.taken_values WHERE id IN (
       SELECT id FROM auth.taken_values WHERE until < now() LIMIT $1 FOR UPDATE SKIP LOCKED
     )`,
    [most],
  );
  return { taken_values };
};
