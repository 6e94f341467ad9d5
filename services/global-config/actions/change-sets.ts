/** Change sets of the platform's documents, which its administrators write and approve. */
import type { DataSource } from 'typeorm';
import { changeSetHandlers } from '../../../shared/change-sets/actions.ts';
import type { ChangeSetOptions, Rights } from '../../../shared/change-sets/change-sets.ts';
import { platformStoppedBy } from '../../../shared/change-sets/stops.ts';
import type { StoredPerson } from '../../../shared/change-sets/schema.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { documentActions } from '../../../shared/documents/document.ts';
import { StrataError } from '../../../shared/errors.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { boundsKind } from '../documents/bounds.ts';
import { budgetsKind } from '../documents/budgets.ts';
import { changePolicyKind } from '../documents/change-policy.ts';
import { eventDestinationsKind } from '../documents/event-destinations.ts';
import { freezesKind } from '../documents/freezes.ts';
import { globalEntryKind } from '../documents/global-entry.ts';
import { serviceTypeKind } from '../documents/service-type.ts';
import { ChangeSetEntity } from '../schema.ts';

/** The platform's roles that somebody has now. Of people; others act by what they are. */
async function platformRolesOf({ type, id }: Pick<StoredPerson, 'type' | 'id'>, request: Request) {
  if (type !== 'user') return type === 'operator' ? ['platform_admin'] : [];
  const [user] = await request.call('auth.users.get', { user_ids: [id] });
  return user?.status === 'active' ? user.platform_roles : [];
}

export const platformRights: Rights = {
  async author(_tenant, { type, id }, request) {
    const roles = await platformRolesOf({ type, id }, request);
    const authenticated_at = new Date().toISOString();
    const caller = {
      type,
      id,
      tenant_id: null,
      roles: [],
      platform_roles: roles,
      authenticated_at,
    };
    return { right: roles.includes('platform_admin') ? caller : null, revisions: {} };
  },
  async approver(_tenant, person, _asked, request) {
    const roles = await platformRolesOf(person, request);
    const right = roles.includes('platform_admin')
      ? null
      : new StrataError('insufficient_role', 'This needs the role platform_admin.');
    return { right, revisions: {} };
  },
};

export function platformChangeSetOptions(
  db: DataSource,
  settings: () => Settings,
): ChangeSetOptions {
  const bounds = documentActions(db, boundsKind);
  const freezes = documentActions(db, freezesKind);
  return {
    db,
    entity: ChangeSetEntity,
    documents: [
      documentActions(db, globalEntryKind),
      documentActions(db, serviceTypeKind),
      bounds,
      documentActions(db, budgetsKind),
      freezes,
      documentActions(db, changePolicyKind),
      documentActions(db, eventDestinationsKind(settings)),
    ],
    rights: platformRights,
    async stoppedBy(_tenant, at) {
      const [stops, frozen] = await Promise.all([bounds.get({}), freezes.get({})]);
      return platformStoppedBy(stops.value?.document ?? {}, frozen.value?.document ?? {}, at);
    },
  };
}

export function platformChangeSets(options: ChangeSetOptions) {
  const handlers = changeSetHandlers(options);
  return {
    'global-config.changesets.create': handlers.create,
    'global-config.changesets.list': handlers.list,
    'global-config.changesets.get': handlers.get,
    'global-config.changesets.changes': handlers.changes,
    'global-config.changesets.edit': handlers.edit,
    'global-config.changesets.submit': handlers.submit,
    'global-config.changesets.approve': handlers.approve,
    'global-config.changesets.reject': handlers.reject,
    'global-config.changesets.cancel': handlers.cancel,
    'global-config.changesets.apply': handlers.apply,
    'global-config.changesets.rebase': handlers.rebase,
    'global-config.changesets.run': handlers.run,
    'global-config.changesets.break-glass': handlers.breakGlass,
    'global-config.changesets.review': handlers.review,
  } satisfies Handlers;
}
