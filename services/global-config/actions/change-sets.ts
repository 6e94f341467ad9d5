/** Change sets of the platform's documents, which its administrators write and approve. */
import type { DataSource, EntityManager } from 'typeorm';
import { changeSetHandlers } from '../../../shared/change-sets/actions.ts';
import type { ChangeSetOptions, Rights } from '../../../shared/change-sets/change-sets.ts';
import { platformStoppedBy } from '../../../shared/change-sets/stops.ts';
import type { StoredPerson } from '../../../shared/change-sets/schema.ts';
import { revisionOf, revisionsOf } from '../../../shared/commits/commit.ts';
import { identitiesOf, isKeyGood } from '../../../shared/commits/held-rights.ts';
import { accountKey } from '../../../shared/contracts/auth.ts';
import { authScope, platformScope } from '../../../shared/contracts/revision-scopes.ts';
import { named, type Handlers, type Request } from '../../../shared/contract-runtime/request.ts';
import { StrataError } from '../../../shared/errors.ts';
import { synchronizedNow } from '../../../shared/process/synchronized-clock.ts';
import { boundsKind } from '../documents/bounds.ts';
import { freezesKind } from '../documents/freezes.ts';
import type { PlatformDocuments } from '../documents/platform-documents.ts';
import { ChangeSetEntity } from '../schema.ts';

/** The platform's roles that somebody has now. Of people; others act by what they are. */
async function platformRolesOf({ type, id }: Pick<StoredPerson, 'type' | 'id'>, request: Request) {
  if (type !== 'user') return type === 'operator' ? ['platform_admin'] : [];
  const [user] = await request.call('auth.users.get', { user_ids: [id] });
  return user?.status === 'active' ? user.platform_roles : [];
}

export const platformRights = ({ manager }: DataSource): Rights => ({
  async author(_tenant, { type, id, key }, request) {
    const principal = { isPerson: type === 'user', id, key };
    const revisions = await revisionsOf(manager, [authScope]);
    const roles = await platformRolesOf({ type, id }, request);
    const authenticated_at = new Date(synchronizedNow()).toISOString();
    const caller = {
      type,
      id,
      tenant_id: null,
      roles: [],
      platform_roles: roles,
      authenticated_at,
    };
    const isTheirs = roles.includes('platform_admin') && (await isKeyGood(principal, request.call));
    return { right: isTheirs ? caller : null, revisions, identities: identitiesOf(principal) };
  },
  async approver(_tenant, person, _asked, request) {
    const revisions = await revisionsOf(manager, [authScope]);
    const roles = await platformRolesOf(person, request);
    const right = roles.includes('platform_admin')
      ? null
      : new StrataError('insufficient_role', 'This needs the role platform_admin.');
    return { right, revisions, identities: [accountKey({ user_id: person.id })] };
  },
});

/** Why nothing of the platform is written by itself at a moment; undefined where it may be. */
export async function stoppedNow(manager: EntityManager, at: Date): Promise<string | undefined> {
  const { current: bounds } = await boundsKind.load(manager, {});
  const { current: freezes } = await freezesKind.load(manager, {});
  return platformStoppedBy(bounds?.document ?? {}, freezes?.document ?? {}, at);
}

export const platformChangeSetOptions = (
  db: DataSource,
  documents: PlatformDocuments,
): ChangeSetOptions => ({
  db,
  entity: ChangeSetEntity,
  documents: Object.values(documents),
  rights: platformRights(db),
  async stoppedBy(_tenant, at) {
    const revision = await revisionOf(db.manager, platformScope);
    return { right: await stoppedNow(db.manager, at), revisions: { [platformScope]: revision } };
  },
});

export const platformChangeSets = (options: ChangeSetOptions) =>
  named('global-config.changesets', changeSetHandlers(options)) satisfies Handlers;
