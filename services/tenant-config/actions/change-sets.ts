/** Change sets of a tenant's documents, and who may write and approve them now. */
import type { DataSource } from 'typeorm';
import type { Caller } from '../../../shared/access.ts';
import { changeSetHandlers } from '../../../shared/change-sets/actions.ts';
import type { ChangeSetOptions, Rights } from '../../../shared/change-sets/change-sets.ts';
import { applying, stoppedBy } from '../../../shared/change-sets/stops.ts';
import type { StoredPerson } from '../../../shared/change-sets/schema.ts';
import { revisionOf, revisionsOf } from '../../../shared/commits/commit.ts';
import { identitiesOf, isKeyGood } from '../../../shared/commits/held-rights.ts';
import { accountKey } from '../../../shared/contracts/auth.ts';
import type { TenantRole } from '../../../shared/contracts/roles.ts';
import {
  authScope,
  memberScope,
  platformScope,
  tenantScope,
} from '../../../shared/contracts/revision-scopes.ts';
import { named, type Handlers, type Request } from '../../../shared/contract-runtime/request.ts';
import type { AllDocuments } from '../../../shared/documents/document.ts';
import { StrataError } from '../../../shared/errors.ts';
import { synchronizedNow } from '../../../shared/process/synchronized-clock.ts';
import { boundsKind } from '../documents/bounds.ts';
import { platformBounds } from '../stores/bounds.ts';
import { noteStep } from '../stores/change-set-notices.ts';
import { ChangeSetEntity, MemberEntity, ServiceAccountEntity, TenantEntity } from '../schema.ts';

/** The roles that somebody has now; undefined where they are nobody here. */
async function rolesOf(
  { manager }: DataSource,
  tenantId: string,
  { type, id }: Pick<StoredPerson, 'type' | 'id'>,
  request: Request,
): Promise<readonly TenantRole[] | undefined> {
  const tenant = await manager.findOneBy(TenantEntity, { id: tenantId });
  if (tenant?.status !== 'active') return undefined;
  const status = 'active';
  if (type === 'service_account') {
    const account = { tenant_id: tenantId, id, status } as const;
    return (await manager.findOneBy(ServiceAccountEntity, account))?.roles;
  }
  const [user] = await request.call('auth.users.get', { user_ids: [id] });
  const member = { tenant_id: tenantId, user_id: id, status } as const;
  return user?.status === 'active'
    ? (await manager.findOneBy(MemberEntity, member))?.roles
    : undefined;
}

const tenantRights = (db: DataSource): Rights => ({
  async author(tenant, { type, id, key }, request) {
    const tenantId = tenant!;
    const revisions = await revisionsOf(db.manager, [memberScope(tenantId), authScope]);
    const principal = { isPerson: type === 'user', id, key };
    const identities = identitiesOf(principal);
    const authenticated_at = new Date(synchronizedNow()).toISOString();
    const known = { type, id, platform_roles: [], authenticated_at };
    if (type !== 'user' && type !== 'service_account')
      return {
        right: { ...known, tenant_id: null, roles: [] } satisfies Caller,
        revisions,
        identities,
      };
    const roles = await rolesOf(db, tenantId, { type, id }, request);
    const isGood = roles !== undefined && (await isKeyGood(principal, request.call));
    const right = isGood ? { ...known, tenant_id: tenantId, roles } : null;
    return { right, revisions, identities };
  },

  async approver(tenant, { type, id }, { groups, at, by }, request) {
    // Whoever has joined the cluster has the key that everything is sealed by.
    if (type === 'operator') return { right: null, revisions: {} };
    const tenantId = tenant!;
    const { decider, why_not, revisions } = await request.call('tenant-config.members.decider', {
      tenant_id: tenantId,
      user_id: id,
      groups: [...groups],
      asked: { at, by: [...by] },
    });
    // Where its groups have nobody, others do not take their place: they could have emptied them.
    const isTheirs = decider !== null && decider.right !== 'groups_without_members';
    const right = isTheirs ? null : refusalOf(why_not, groups);
    return { right, revisions, identities: [accountKey({ user_id: id })] };
  },
});

function refusalOf(whyNot: string | null, groups: readonly string[]): StrataError {
  if (whyNot === 'added_by_requester')
    return new StrataError('approval_decider_added_by_requester');
  if (whyNot === 'added_later')
    return new StrataError(
      'insufficient_role',
      'You were given the right to approve after this was submitted. Who may approve it was settled then.',
    );
  const who =
    groups.length === 0
      ? 'operators, reviewers and tenant_admins'
      : `members of ${groups.join(', ')}`;
  return new StrataError('insufficient_role', `Only ${who} may approve this change set.`);
}

export const tenantChangeSetOptions = (
  db: DataSource,
  documents: AllDocuments,
): ChangeSetOptions => ({
  db,
  entity: ChangeSetEntity,
  documents,
  rights: tenantRights(db),
  onStep: (manager, step, row, { caller }) => noteStep(manager, step, row, caller),
  async stoppedBy(tenant, at, request) {
    const tenantId = tenant!;
    const body = { ...applying, at: at.toISOString() };
    const least = await revisionOf(db.manager, tenantScope(tenantId));
    // Without balances: no budget holds a change of configuration.
    const params = { tenant_id: tenantId, body, min_revision: least };
    const { decided } = await request.call('config-resolver.admission', params);
    // What is known from before an outage may not be so any more.
    if (decided.stale) throw new StrataError('service_unavailable');
    const { tenant: own, platform } = decided.revision;
    const revisions = { [tenantScope(tenantId)]: own, [platformScope]: platform };
    // Read after the decision: where they are newer, its revisions are not those of now.
    const ofPlatform = await platformBounds(request);
    const { current } = await boundsKind.load(db.manager, { tenant_id: tenantId });
    const ofTenant =
      current === null
        ? []
        : [{ by: 'tenant' as const, bounds: current.document, revision: current.revision }];
    return { right: stoppedBy(decided.reasons, [...ofPlatform, ...ofTenant]), revisions };
  },
});

export const tenantChangeSets = (options: ChangeSetOptions) =>
  named('tenant-config.changesets', changeSetHandlers(options)) satisfies Handlers;
