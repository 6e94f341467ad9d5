/** Where a session looks into a tenant for the platform (`shared/contracts/visits.ts`). */
import { isOpenTo, type Caller } from '../../../shared/access.ts';
import type { Call } from '../../../shared/contract-runtime/request.ts';
import { visitRoles } from '../../../shared/contracts/visits.ts';
import { ifFound } from '../../../shared/errors.ts';
import type { Membership } from '../accounts/rules/memberships.ts';

interface Visiting {
  readonly userId: string;
  readonly sessionId: string;
  readonly tenantId: string | null;
  /** Of the session: none where it is confined to one tenant. */
  readonly platformRoles: readonly string[];
}

/** What the session is in the tenant while its visit is open; undefined where it has none. */
export async function visitOf(
  { userId, sessionId, tenantId, platformRoles }: Visiting,
  call: Call,
): Promise<Membership | undefined> {
  if (tenantId === null || !platformRoles.includes('platform_admin')) return undefined;
  const address = { tenant_id: tenantId, user_id: userId };
  const visit = await ifFound(call('tenant-config.visits.resolve', address));
  if (!visit || !isOpenTo(sessionId, visit)) return undefined;
  const { id, until, tenant_name, tenant_status, sign_in_policy } = visit;
  const tenant = { tenant_id: tenantId, tenant_name, tenant_status, sign_in_policy };
  return { ...tenant, roles: [...visitRoles], visit: { id, until } };
}

/** The same of a caller, whose role of the platform the gateway takes while they visit. */
export async function visitOfCaller(
  { id, session_id: sessionId, platform_roles: roles, visit }: Caller,
  tenantId: string | null,
  call: Call,
): Promise<Membership | undefined> {
  if (sessionId === undefined) return undefined;
  const platformRoles = visit ? ['platform_admin'] : roles;
  return visitOf({ userId: id, sessionId, tenantId, platformRoles }, call);
}
