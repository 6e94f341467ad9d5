/** Which of a person's tenants a session is for. */
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { StrataError } from '../../../shared/errors.ts';

export type Membership = ResultOf<'tenant-config.members.of'>[number];

/** The first in an active tenant, else the first: its error says that the tenant is disabled. */
const defaultMembership = (memberships: readonly Membership[]): Membership | undefined =>
  memberships.find(({ tenant_status: status }) => status === 'active') ?? memberships[0];

/**
 * The membership in the wanted tenant, or a default where none is wanted. Null for an account without any: a platform
 * administrator needs none. Throws `auth_no_tenant_membership` or `auth_tenant_disabled`.
 */
export function chooseMembership(
  memberships: readonly Membership[],
  wantedTenant: string | undefined,
): Membership | null {
  const chosen =
    wantedTenant === undefined
      ? defaultMembership(memberships)
      : memberships.find(({ tenant_id: id }) => id === wantedTenant);
  if (wantedTenant !== undefined && !chosen) throw new StrataError('auth_no_tenant_membership');
  if (chosen?.tenant_status === 'disabled') throw new StrataError('auth_tenant_disabled');
  return chosen ?? null;
}
