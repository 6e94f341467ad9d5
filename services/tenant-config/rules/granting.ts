/** What no API key gives, whatever its scopes: it would be more than its maker could see in it. */
import type { Caller } from '../../../shared/access.ts';
import type { TenantRole } from '../../../shared/contracts/roles.ts';
import { StrataError } from '../../../shared/errors.ts';
import { isPlatformAdminAddress, type Settings } from '../../../shared/settings/settings.ts';

/** Throws 403 where an API key makes a tenant_admin, who has every right in the tenant. */
export function checkGrant(
  { scopes }: Caller,
  after: readonly TenantRole[],
  before: readonly TenantRole[] = [],
): void {
  if (scopes === undefined || !after.includes('tenant_admin') || before.includes('tenant_admin'))
    return;
  throw new StrataError('insufficient_scope', 'An API key makes no one a tenant_admin.');
}

/**
 * Throws 403 where an API key vouches, with a password, for the address of a platform
 * administrator, who has every right on the platform.
 */
export function checkWord(
  { scopes }: Caller,
  admin: { readonly email: string; readonly password?: string },
  settings: Settings,
): void {
  if (scopes === undefined || admin.password === undefined) return;
  if (!isPlatformAdminAddress(admin.email, settings)) return;
  throw new StrataError(
    'insufficient_scope',
    'An API key makes no one a platform admin: leave the password out.',
  );
}
