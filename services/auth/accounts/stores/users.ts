/** Rows of accounts, and the locks that keep sign-ins and changes of an account apart. */
import { randomUUID } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import { lockExclusively, lockShared } from '../../../../shared/database/fair-locks.ts';
import { UserEntity, type UserRow } from '../../schema.ts';

export const findUser = (manager: EntityManager, id: string): Promise<UserRow | null> =>
  manager.findOneBy(UserEntity, { id });

/** `address` as `addressOf` gives it. */
export const findUserByAddress = (
  manager: EntityManager,
  address: string,
): Promise<UserRow | null> => manager.findOneBy(UserEntity, { email: address });

const lockName = (id: string): string => `strata account ${id}`;

const ifActive = (user: UserRow | null): UserRow | null =>
  user?.status === 'active' ? user : null;

/**
 * The account if it is active, locked until the new session is committed: whoever disables it or
 * changes its password waits for that, and then ends this session with the others. Further sign-ins
 * wait behind a change that waits.
 */
export async function lockForSignIn(manager: EntityManager, id: string): Promise<UserRow | null> {
  await lockShared(manager, [lockName(id)]);
  return ifActive(await findUser(manager, id));
}

/** The account whatever its status, locked against every other change and against sign-ins. */
export async function lockAccount(manager: EntityManager, id: string): Promise<UserRow | null> {
  await lockExclusively(manager, lockName(id));
  return findUser(manager, id);
}

/** The same, if it is active. */
export const lockForChange = async (manager: EntityManager, id: string): Promise<UserRow | null> =>
  ifActive(await lockAccount(manager, id));

/**
 * An account that nobody has proved begins again, where somebody asks for it again: it is not taken
 * away for an invitation of before.
 */
export async function keepUnclaimed(manager: EntityManager, address: string): Promise<void> {
  await manager.query(
    `UPDATE auth.users SET created_at = now()
     WHERE email = $1 AND NOT email_verified AND password_hash IS NULL`,
    [address],
  );
}

export type NewUser = Pick<UserRow, 'email' | 'email_verified' | 'display_name' | 'password_hash'>;

/** The id of the new account; null where its address has one already. */
export async function insertUser(manager: EntityManager, user: NewUser): Promise<string | null> {
  const [inserted] = await manager.query<{ id: string }[]>(
    `INSERT INTO auth.users (id, email, email_verified, display_name, password_hash, status, created_at)
     VALUES ($1, $2, $3, $4, $5, 'active', now()) ON CONFLICT (email) DO NOTHING RETURNING id`,
    [randomUUID(), user.email, user.email_verified, user.display_name, user.password_hash],
  );
  return inserted?.id ?? null;
}
