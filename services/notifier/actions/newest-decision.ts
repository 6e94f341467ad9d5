/**
 * Deciding by configuration that is certainly the newest, and stays so until a transaction ends:
 * what starts and what is redeemed comes before a change of the limits or goes by it.
 */
import type { EntityManager } from 'typeorm';
import { revisionsOf } from '../../../shared/commits/commit.ts';
import { actsByRoles } from '../../../shared/access.ts';
import {
  areStillSo,
  identitiesOf,
  requireCredential,
  type ReadRight,
} from '../../../shared/commits/held-rights.ts';
import type { Call, Request } from '../../../shared/contract-runtime/request.ts';
import { sessionCacheKey } from '../../../shared/contracts/auth.ts';
import type { DecisionReason } from '../../../shared/contracts/decide.ts';
import { authScope, memberScope } from '../../../shared/contracts/revision-scopes.ts';
import { operators } from '../../../shared/contracts/tenant-document.ts';
import { ifFound, StrataError } from '../../../shared/errors.ts';
import type { TimedAdmission } from '../rules/automation.ts';
import { heldRevisions, heldTenant, isDecidedBy, type Revisions } from '../stores/automations.ts';

export const mostTries = 20;
/** Until this node has observed a change of the platform. */
export const pauseMs = 50;

/** By configuration of at least this revision of the tenant. */
export type Decide = (least?: number) => Promise<TimedAdmission>;

/**
 * The configuration, or what budgets have left, changed between decision and transaction, or too
 * much time passed.
 */
export class Moved extends Error {
  readonly held: Revisions;
  /** The budgets that were found to ask for an approval; undefined where none was looked at. */
  readonly over: readonly DecisionReason[] | undefined;
  constructor(held: Revisions, over?: readonly DecisionReason[]) {
    super('moved');
    this.held = held;
    this.over = over;
  }
}

/** Whether the tenant may do anything at all, which is so until its members' revision changes. */
export interface TenantState extends ReadRight {
  readonly isActive: boolean;
}

export async function stateOfTenant(
  manager: EntityManager,
  tenantId: string,
  call: Call,
): Promise<TenantState> {
  const revisions = await revisionsOf(manager, [memberScope(tenantId)]);
  const tenant = await ifFound(call('tenant-config.tenants.get', { tenant_id: tenantId }));
  return { isActive: tenant?.status === 'active', revisions };
}

type Calling = Pick<Request, 'caller' | 'call'>;

/**
 * The same for a request, whose caller may lose the right while it waits for the lock on the slots.
 * Throws 401 or 403 where they have.
 */
export async function stateForCaller(
  manager: EntityManager,
  tenantId: string,
  request: Calling,
): Promise<TenantState> {
  const accounts = await revisionsOf(manager, [authScope]);
  const { revisions, isActive } = await stateOfTenant(manager, tenantId, request.call);
  const identities = isActive ? await requireStanding(tenantId, request) : [];
  return { isActive, revisions: { ...accounts, ...revisions }, identities };
}

/** Keys of the account and the credential that the caller goes by. */
async function requireStanding(tenantId: string, { caller, call }: Calling): Promise<string[]> {
  if (!actsByRoles(caller)) return [];
  const { type, id, session_id: session, api_key: key } = caller;
  const principal = { isPerson: type === 'user', id, key: key?.id };
  await requireCredential(principal, { caller, call });
  const found = await ifFound<{ readonly roles: readonly string[]; readonly status?: string }>(
    principal.isPerson
      ? call('tenant-config.members.resolve', { tenant_id: tenantId, user_id: id })
      : call('tenant-config.service-accounts.resolve', { tenant_id: tenantId, account_id: id }),
  );
  const isStill = operators.some(
    (role) => found?.roles.includes(role) && caller.roles.includes(role),
  );
  if (!isStill || found?.status === 'disabled') throw new StrataError('insufficient_role');
  const ofSession = session === undefined ? [] : [sessionCacheKey({ session_id: session })];
  return [...identitiesOf(principal), ...ofSession];
}

/**
 * What was decided ahead of the transaction, or what `decideAgain` says while the tenant's
 * configuration is kept as it is: where that changes all the time, nothing that was decided ahead
 * is by the newest. The platform's is never kept so: an emergency stop would wait for another node.
 * Throws `Moved` where the newest configuration may decide otherwise, or the tenant's members changed;
 * their revision is held first, as wherever both are.
 */
export async function newestAdmission(
  manager: EntityManager,
  tenantId: string,
  ahead: TimedAdmission,
  state: TenantState,
  decideAgain: Decide | undefined,
): Promise<TimedAdmission> {
  if (!(await areStillSo(manager, [state]))) throw new Moved(ahead.decided.revision);
  if (!state.isActive) throw new StrataError('auth_tenant_disabled');
  const admission = decideAgain ? await decideAgain(await heldTenant(manager, tenantId)) : ahead;
  const held = await heldRevisions(manager, tenantId);
  if (!(await isDecidedBy(manager, held, admission.decided.revision))) throw new Moved(held);
  return admission;
}
