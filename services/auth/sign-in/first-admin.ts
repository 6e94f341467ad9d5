/** The account that a new installation is administered with. */
import { randomBytes, randomUUID } from 'node:crypto';
import type { DataSource } from 'typeorm';
import type { Settings } from '../../../shared/settings.ts';
import { addressOf } from '../rules/accounts.ts';
import { networkOf } from '../rules/throttle.ts';
import { UserEntity } from '../schema.ts';
import type { PasswordHashing } from './password-hashing.ts';

export interface FirstAdmin {
  readonly email: string;
  /** Only where it was made up here; it is stored nowhere in plain text. */
  readonly password?: string;
}

/**
 * In a database without accounts, makes one for the first of PLATFORM_ADMIN_EMAILS, with PLATFORM_ADMIN_PASSWORD or a random
 * password. Undefined where there is nothing to do, or another node was faster.
 */
export async function ensureFirstAdmin(
  db: DataSource,
  settings: Settings,
  hashing: PasswordHashing,
): Promise<FirstAdmin | undefined> {
  const [listed] = settings.platform_admin_emails;
  if (listed === undefined) return undefined;
  const existing = await db.manager.count(UserEntity);
  if (existing > 0) return undefined;
  const email = addressOf(listed);
  const given = settings.platform_admin_password;
  const password = given ?? randomBytes(18).toString('base64url');
  const inserted = await db.query<unknown[]>(
    `INSERT INTO auth.users SELECT $1, $2, true, NULL, $3, 'active', now() WHERE NOT EXISTS (SELECT FROM auth.users)
     ON CONFLICT (email) DO NOTHING RETURNING id`,
    [randomUUID(), email, await hashing.hash(password, networkOf(undefined))],
  );
  if (inserted.length === 0) return undefined;
  return given === null ? { email, password } : { email };
}
