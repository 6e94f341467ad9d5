/** Which of a person's tenants a session is for. */
import type { ResultOf } from '../../../../shared/contracts/index.ts';
import { StrataError } from '../../../../shared/errors.ts';

type MembershipOfNow = ResultOf<'tenant-config.members.of'>[number];
/** With a visit where the person is no member and looks into the tenant for the platform. */
export type Membership = Omit<MembershipOfNow, 'groups'> & {
  readonly visit?: { readonly id: string; readonly until: string };
};

const isOpen = ({ tenant_status: status }: Membership): boolean => status === 'active';

/** The membership in a tenant. Throws `auth_no_tenant_membership` or `auth_tenant_disabled`. */
export function requireMembership(
  memberships: readonly Membership[],
  tenantId: string,
): Membership {
  const membership = memberships.find(({ tenant_id: id }) => id === tenantId);
  if (!membership) throw new StrataError('auth_no_tenant_membership');
  if (!isOpen(membership)) throw new StrataError('auth_tenant_disabled');
  return membership;
}

/**
 * The membership of a session that was asked for without a tenant: in the tenant last used, else in
 * the only one, else in none, which is what somebody of several tenants chooses from. Disabled
 * tenants count as none.
 */
export function landingMembership(
  memberships: readonly Membership[],
  lastUsedTenant: string | null,
): Membership | null {
  const open = memberships.filter(isOpen);
  const lastUsed = open.find(({ tenant_id: id }) => id === lastUsedTenant);
  if (lastUsed) return lastUsed;
  const [only, ...others] = open;
  return only && others.length === 0 ? only : null;
}
