/** Who may give the role that can give every role. */
import type { Caller } from '../../../shared/access.ts';
import type { TenantRole } from '../../../shared/contracts/contract.ts';
import { StrataError } from '../../../shared/errors.ts';

/**
 * Throws 403 where a credential that is no person's sign-in makes a tenant_admin: an API key with `members:write` would give whoever
 * holds it every right in the tenant, beyond its own scopes.
 */
export function checkGrant(
  caller: Caller,
  after: readonly TenantRole[],
  before: readonly TenantRole[] = [],
): void {
  if (caller.scopes === undefined) return;
  if (!after.includes('tenant_admin') || before.includes('tenant_admin')) return;
  throw new StrataError('insufficient_scope', 'An API key makes nobody a tenant_admin.');
}
