/** How many of its credentials an account may keep. */
import type { EntityManager } from 'typeorm';
import { StrataError } from '../../../shared/errors.ts';

/** What there may be so many of. */
export interface Room {
  readonly most: number;
  /** Of what, in words: `passkeys`. */
  readonly what: string;
  /** The variable that says how many. */
  readonly setting: string;
  /** What helps. */
  readonly advice: string;
}

/**
 * Throws `conflict` where the account has as many as it may. `count` counts them; requests of one
 * account count one after the other, each with what the previous one has made.
 */
export async function requireRoom(
  manager: EntityManager,
  userId: string,
  { most, what, setting, advice }: Room,
  count: () => Promise<number>,
): Promise<void> {
  await manager.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [
    `strata ${what} ${userId}`,
  ]);
  const kept = await count();
  if (kept < most) return;
  throw new StrataError(
    'conflict',
    `You have ${kept} ${what}, and may have ${most} (${setting}). ${advice}`,
  );
}
