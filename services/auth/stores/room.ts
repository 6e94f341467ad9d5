/** How many of its credentials an account may keep. */
import type { EntityManager } from 'typeorm';
import { lockExclusively } from '../../../shared/database/fair-locks.ts';
import { StrataError } from '../../../shared/errors.ts';
import type { Settings } from '../../../shared/settings/settings.ts';

/** What there may be so many of. */
export interface Room {
  /** Says how many. */
  readonly setting: Extract<keyof Settings, `${string}_per_person`>;
  /** Of what, in words: `passkeys`. */
  readonly what: string;
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
  settings: Settings,
  { setting, what, advice }: Room,
  count: () => Promise<number>,
): Promise<void> {
  await lockExclusively(manager, `strata ${what} ${userId}`);
  const kept = await count();
  const most = settings[setting];
  if (kept < most) return;
  throw new StrataError(
    'conflict',
    `You have ${kept} ${what}, and may have ${most} (${setting.toUpperCase()}). ${advice}`,
  );
}
