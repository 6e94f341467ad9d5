/** An account as it is addressed, ranked and shown. */
import type { ResultOf } from '../../../shared/contracts/index.ts';
import type { Settings } from '../../../shared/settings.ts';
import type { UserRow } from '../schema.ts';

export type Account = ResultOf<'auth.users.ensure'>;

/** The form in which addresses are stored and compared: trimmed and in lower case. */
export const addressOf = (email: string): string => email.trim().toLowerCase();

/** Whoever has one of PLATFORM_ADMIN_EMAILS administers the platform, once the address is verified. */
export function platformRolesOf(user: UserRow, settings: Settings): string[] {
  const isListed = settings.platform_admin_emails.some((email) => addressOf(email) === user.email);
  return isListed && user.email_verified ? ['platform_admin'] : [];
}

export const accountOf = (user: UserRow, settings: Settings): Account => ({
  id: user.id,
  email: user.email,
  display_name: user.display_name,
  platform_roles: platformRolesOf(user, settings),
});
