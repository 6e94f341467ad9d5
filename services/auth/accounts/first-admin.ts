/** The account that a new installation is administered with. */
import { randomBytes, randomUUID } from 'node:crypto';
import type { DataSource } from 'typeorm';
import { lockExclusively } from '../../../shared/database/fair-locks.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { addressOf } from './rules/accounts.ts';
import { networkOf } from '../throttling/rules/throttle.ts';
import type { PasswordHashing } from '../passwords/password-hashing.ts';

export interface FirstAdmin {
  readonly email: string;
  /** Only where it was made up here; it is stored nowhere in plain text. */
  readonly password?: string;
}

/**
 * In a database without accounts, makes one for the first of PLATFORM_ADMIN_EMAILS, with
 * PLATFORM_ADMIN_PASSWORD or a random password, and announces it. To be called by a process that
 * serves already: what is announced can be used at once.
 *
 * A random password has been seen by nobody until it is announced. A process that ends between the
 * two leaves the account in `auth.unannounced_admin`, and the next start gives it another password
 * and announces that. Processes follow each other, so that one that starts beside this one finds
 * the account announced.
 */
export async function announceFirstAdmin(
  db: DataSource,
  settings: Settings,
  hashing: PasswordHashing,
  announce: (admin: FirstAdmin) => void,
): Promise<void> {
  const [listed] = settings.platform_admin_emails;
  if (listed === undefined || !(await isNeeded(db))) return;
  const email = addressOf(listed);
  const given = settings.platform_admin_password;
  const password = given ?? randomBytes(18).toString('base64url');
  const hash = await hashing.hash(password, networkOf(undefined));
  // The transaction is the lock alone: what is announced has to be committed before.
  await db.transaction(async (lock) => {
    await lockExclusively(lock, 'strata first admin');
    const isMade = (await renewUnannounced(db, email, hash)) || (await addFirst(db, email, hash));
    if (isMade) announce(given === null ? { email, password } : { email });
    await db.query('DELETE FROM auth.unannounced_admin');
  });
}

async function isNeeded(db: DataSource): Promise<boolean> {
  const [found] = await db.query<{ needed: boolean }[]>(
    `SELECT NOT EXISTS (SELECT FROM auth.users) OR EXISTS (SELECT FROM auth.unannounced_admin) AS needed`,
  );
  return found!.needed;
}

/**
 * Gives the account that an earlier start made and did not announce this password, and the address
 * that is listed now. Nobody knows the old one, unless it was announced after all: then somebody
 * has signed in, or set another, and it stays as it is.
 */
async function renewUnannounced(db: DataSource, email: string, hash: string): Promise<boolean> {
  const [renewed] = await db.query<[unknown[], number]>(
    `WITH renewed AS (
       UPDATE auth.users SET email = $1, password_hash = $2
       FROM auth.unannounced_admin AS unannounced
       WHERE users.id = unannounced.user_id AND users.password_hash = unannounced.password_hash
         AND NOT EXISTS (SELECT FROM auth.sessions WHERE sessions.user_id = users.id)
         AND NOT EXISTS (SELECT FROM auth.users AS other WHERE other.email = $1 AND other.id <> users.id)
       RETURNING id
     )
     UPDATE auth.unannounced_admin SET password_hash = $2 FROM renewed WHERE user_id = renewed.id RETURNING user_id`,
    [email, hash],
  );
  return renewed.length > 0;
}

async function addFirst(db: DataSource, email: string, hash: string): Promise<boolean> {
  const added = await db.query<unknown[]>(
    `WITH added AS (
       INSERT INTO auth.users (id, email, email_verified, display_name, password_hash, status, created_at)
       SELECT $1, $2, true, NULL, $3, 'active', now() WHERE NOT EXISTS (SELECT FROM auth.users)
       ON CONFLICT (email) DO NOTHING RETURNING id
     )
     INSERT INTO auth.unannounced_admin SELECT id, $3 FROM added RETURNING user_id`,
    [randomUUID(), email, hash],
  );
  return added.length > 0;
}
