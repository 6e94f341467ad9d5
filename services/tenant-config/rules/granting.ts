/** Who may give the role that can give every role. */
import { isRecent, type Caller } from '../../../shared/access.ts';
import type { TenantRole } from '../../../shared/contracts/contract.ts';
import { StrataError } from '../../../shared/errors.ts';
import { isPlatformAdminAddress, type Settings } from '../../../shared/settings.ts';

/**
 * Throws 403 where a credential that is no person's sign-in of the last 10 minutes makes a
 * tenant_admin: an API key with `members:write` would give whoever holds it every right in the
 * tenant, beyond its own scopes.
 */
export function checkGrant(
  caller: Caller,
  after: readonly TenantRole[],
  before: readonly TenantRole[] = [],
): void {
  if (!after.includes('tenant_admin') || before.includes('tenant_admin')) return;
  requireOwnSignIn(caller, 'An API key makes nobody a tenant_admin.');
}

/**
 * The same for proving the address of a platform administrator by one's word, with a password for
 * the account: an API key with `platform:write` would give itself every right on the platform.
 */
export function checkWord(
  caller: Caller,
  admin: { readonly email: string; readonly password?: string },
  settings: Settings,
): void {
  if (admin.password === undefined || !isPlatformAdminAddress(admin.email, settings)) return;
  requireOwnSignIn(caller, 'An API key makes nobody a platform admin: leave the password out.');
}

function requireOwnSignIn(caller: Caller, message: string): void {
  if (caller.scopes !== undefined) throw new StrataError('insufficient_scope', message);
  if (caller.type === 'user' && !isRecent(caller)) throw new StrataError('auth_reauth_required');
}
