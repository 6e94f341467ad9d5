/** An account as it is addressed, ranked and shown. */
import type { ResultOf } from '../../../../shared/contracts/index.ts';
import { isPlatformAdminAddress, type Settings } from '../../../../shared/settings/settings.ts';
import type { UserRow } from '../../schema.ts';

export type Account = ResultOf<'auth.login'>['user'];

/** The form in which addresses are stored and compared: trimmed and in lower case. */
export const addressOf = (email: string): string => email.trim().toLowerCase();

/**
 * Whoever has one of PLATFORM_ADMIN_EMAILS administers the platform, once the address is proved.
 */
export const platformRolesOf = (user: UserRow, settings: Settings): string[] =>
  user.email_verified && isPlatformAdminAddress(user.email, settings) ? ['platform_admin'] : [];

/** The same in a session or by a key: none where that is good for one tenant alone. */
export const platformRolesIn = (
  { confined_to: confinedTo }: { readonly confined_to: string | null },
  user: UserRow,
  settings: Settings,
): string[] => (confinedTo === null ? platformRolesOf(user, settings) : []);

export const accountOf = (user: UserRow, settings: Settings): Account => ({
  id: user.id,
  email: user.email,
  display_name: user.display_name,
  platform_roles: platformRolesOf(user, settings),
});
