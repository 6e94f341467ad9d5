/**
 * Actions on memberships. Their revisions are those of the scope `members:<id>`; names and
 * addresses come from `auth`.
 */
import { In, IsNull, MoreThan, type DataSource, type EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { commitChange, readSnapshot, type EventDraft } from '../../../shared/commits/commit.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { memberKey } from '../../../shared/contracts/members.ts';
import { memberScope } from '../../../shared/contracts/revision-scopes.ts';
import { requireQuota } from '../../../shared/commits/usage.ts';
import { dropAgain } from '../../../shared/commits/removals.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import { StrataError } from '../../../shared/errors.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { diff } from '../../../shared/schema/diff.ts';
import { givenNow, givenOnJoining } from '../rules/given.ts';
import {
  givenByHand,
  rightsByDirectory,
  rightsByHand,
  together,
  type Rights,
  type MemberRights,
} from '../rules/directory-groups.ts';
import { checkGrant } from '../rules/granting.ts';
import { byThemselves, memberEvent } from '../rules/member-events.ts';
import {
  MemberEntity,
  ScimUserEntity,
  TenantEntity,
  type MemberRow,
  type TenantRow,
} from '../schema.ts';
import { directoryRightsOf, leaveDirectoryGroups } from '../stores/directory-groups.ts';
import { giftOf } from '../stores/givers.ts';
import { hasBeenMember } from '../stores/membership-history.ts';
import {
  changeRights,
  findMember,
  findMemberships,
  isAdministrator,
  noSuchMember,
  requireAdministrator,
} from '../stores/members.ts';
import { findTenant, requireTenant } from '../stores/tenants.ts';
import {
  insertMember,
  invite,
  requireRoomToInvite,
  takeInvitation,
  tryToInvite,
} from './inviting.ts';

type Member = ResultOf<'tenant-config.members.add'>;

type Account = ResultOf<'auth.users.get'>[number];

/** What the account of somebody who has not accepted says is not the tenant's to know. */
function memberOf(row: MemberRow, account: Account | undefined, isOfDirectory: boolean): Member {
  const known = row.status === 'active' ? account : undefined;
  return {
    user_id: row.user_id,
    email: account?.email ?? '',
    display_name: known?.display_name ?? null,
    roles: row.roles,
    groups: row.groups,
    status: row.status,
    account_status: known?.status ?? null,
    can_act: known?.status === 'active',
    added_at: row.added_at.toISOString(),
    by_directory: rightsByDirectory(row),
    managed_by: isOfDirectory ? 'scim' : null,
  };
}

const alreadyThere = {
  active: 'This person is a member already. Change their roles instead.',
  invited: 'This person is invited already. Send the invitation again, or change their roles.',
} as const satisfies Record<MemberRow['status'], string>;

const membershipOf = (tenant: TenantRow, row: MemberRow) => ({
  tenant_id: tenant.id,
  tenant_name: tenant.name,
  tenant_status: tenant.status,
  sign_in_policy: tenant.sign_in_policy,
  roles: row.roles,
  groups: row.groups,
});

/**
 * The rows with name and address from the accounts, which are `auth`'s. The name of somebody who
 * has not accepted is not the tenant's to know.
 */
async function withAccounts(
  db: DataSource,
  rows: readonly MemberRow[],
  request: Request,
): Promise<Member[]> {
  const [first] = rows;
  if (!first) return [];
  const ids = rows.map((row) => row.user_id);
  const [accounts, provisioned] = await Promise.all([
    request.call('auth.users.get', { user_ids: ids }),
    db.manager.findBy(ScimUserEntity, {
      tenant_id: first.tenant_id,
      user_id: In(ids),
      deleted_at: IsNull(),
    }),
  ]);
  const byId = new Map(accounts.map((account) => [account.id, account]));
  const ofDirectory = new Set(provisioned.map(({ user_id: id }) => id));
  return rows.map((row) => memberOf(row, byId.get(row.user_id), ofDirectory.has(row.user_id)));
}

/** What a member has who is given this by hand, with what the directory gives. */
async function memberRightsAfter(
  manager: EntityManager,
  before: MemberRow,
  change: Partial<Rights>,
): Promise<MemberRights> {
  const { tenant_id: tenantId, user_id: userId, roles, groups } = before;
  const byDirectory = await directoryRightsOf(manager, tenantId, userId);
  const wanted = { roles, groups, ...change };
  return together(givenByHand(rightsByHand(before), wanted, byDirectory), byDirectory);
}

/** Makes an invited member active, inside the caller's change. */
async function admit(manager: EntityManager, row: MemberRow, at: Date): Promise<EventDraft> {
  const { tenant_id: tenantId, user_id: userId, roles, groups } = row;
  const address = { tenant_id: tenantId, user_id: userId };
  const given = givenOnJoining(row, row.given, at);
  await manager.update(MemberEntity, address, { status: 'active', given });
  return byThemselves(memberEvent('joined', tenantId, userId, { roles, groups }), userId);
}

/** Ends the membership of somebody who has not accepted it; of anybody else nothing changes. */
const uninvite = async (
  address: Pick<MemberRow, 'tenant_id' | 'user_id'>,
  event: EventDraft,
  db: DataSource,
  request: Request,
): Promise<null> =>
  commitChange(db, request, memberScope(address.tenant_id), async (manager) => {
    const { affected } = await manager.delete(MemberEntity, { ...address, status: 'invited' });
    return { result: null, keys: [], events: affected ? [event] : [] };
  });

export const memberActions = (db: DataSource, settings: () => Settings) => ({
  ...listActions(db, settings),
  ...membershipActions(db, settings),
});

/** What a tenant's administrators do. */
const listActions = (db: DataSource, settings: () => Settings) =>
  ({
    async 'tenant-config.members.list'({ tenant_id, limit = defaultLimit, cursor }, request) {
      const after = decodeCursor(cursor, 'id');
      const rows = await db.manager.find(MemberEntity, {
        where: { tenant_id, ...(after !== undefined && { user_id: MoreThan(after) }) },
        order: { user_id: 'ASC' },
        take: limit + 1,
      });
      const { items, next_cursor } = pageOf(
        rows,
        limit,
        (row) => row.user_id,
        (row) => row,
      );
      return { items: await withAccounts(db, items, request), next_cursor };
    },

    /**
     * Whoever may vouch for the address makes the person a member at once; everybody else asks them
     * first.
     */
    async 'tenant-config.members.add'({ tenant_id, body }, request) {
      const { email, roles, groups = [] } = body;
      checkGrant(request.caller, roles);
      // First, so that a flood is refused from memory.
      await takeInvitation(db, tenant_id, request.caller, settings());
      const tenant = await findTenant(db.manager, tenant_id);
      // Before anything is kept: an account is made for each address.
      await requireRoomToInvite(db.manager, tenant_id, settings());
      await requireQuota(db.manager, tenant_id, 'members', settings());
      const account = await request.call('auth.users.ensure', {
        body: { email, tenant_id, tenant_name: tenant.name },
      });
      const address = { tenant_id, user_id: account.id };
      const row = await changeRights(db, request, tenant_id, async (manager, at) => {
        const known = await manager.findOneBy(MemberEntity, address);
        if (known) throw new StrataError('conflict', alreadyThere[known.status]);
        const joining = { manager, request, at, settings: settings(), ...address };
        return insertMember(joining, { roles, groups }, account.admitted);
      });
      if (!account.admitted) await tryToInvite(tenant, account.id, request);
      const [member] = await withAccounts(db, [row], request);
      return member!;
    },

    async 'tenant-config.members.invite'({ tenant_id, user_id }, request) {
      const tenant = await findTenant(db.manager, tenant_id);
      const row = await findMember(db.manager, tenant_id, user_id);
      if (row.status === 'active') throw new StrataError('conflict', alreadyThere.active);
      await takeInvitation(db, tenant_id, request.caller, settings());
      await invite(tenant, user_id, request);
      const [member] = await withAccounts(db, [row], request);
      return member!;
    },

    async 'tenant-config.members.patch'({ tenant_id, user_id, body }, request) {
      const row = await changeRights(db, request, tenant_id, async (manager, at) => {
        const before = await findMember(manager, tenant_id, user_id);
        const memberRights = await memberRightsAfter(manager, before, body);
        const after: MemberRow = { ...before, ...memberRights };
        checkGrant(request.caller, after.roles, before.roles);
        const { roles, groups } = after;
        const gift = await giftOf(manager, tenant_id, request.caller, at);
        const given = givenNow(after, gift, before);
        await manager.update(MemberEntity, { tenant_id, user_id }, { ...memberRights, given });
        if (isAdministrator(before)) await requireAdministrator(manager, tenant_id);
        const changes = diff({ roles: before.roles, groups: before.groups }, { roles, groups });
        return {
          result: after,
          keys: request.keys,
          events: [memberEvent('updated', tenant_id, user_id, { changes })],
        };
      });
      const [member] = await withAccounts(db, [row], request);
      return member!;
    },

    async 'tenant-config.members.remove'({ tenant_id, user_id }, request) {
      const address = { tenant_id, user_id };
      const isMember = await db.manager.existsBy(MemberEntity, address);
      if (isMember)
        await changeRights(db, request, tenant_id, async (manager) => {
          const removed = await findMember(manager, tenant_id, user_id);
          const { roles, groups } = removed;
          await manager.delete(MemberEntity, address);
          if (isAdministrator(removed)) await requireAdministrator(manager, tenant_id);
          return {
            result: undefined,
            keys: request.keys,
            events: [memberEvent('removed', tenant_id, user_id, { roles, groups })],
          };
        });
      // Also of whom an earlier request removed that ended before this.
      await request.call('auth.invitations.end', address);
      if (isMember) return null;
      await dropAgain(db, request, memberScope(tenant_id), request.keys);
      throw noSuchMember();
    },
  }) satisfies Handlers;

/** What services ask of, and do with, the memberships of one person. */
const membershipActions = (db: DataSource, settings: () => Settings) =>
  ({
    'tenant-config.members.resolve': ({ tenant_id, user_id }) =>
      readSnapshot(db, memberScope(tenant_id), async (manager) => {
        const row = await manager.findOneBy(MemberEntity, { tenant_id, user_id, status: 'active' });
        const tenant = row && (await manager.findOneBy(TenantEntity, { id: tenant_id }));
        return row && tenant ? membershipOf(tenant, row) : null;
      }),

    'tenant-config.members.of': ({ user_id }) => findMemberships(db.manager, user_id, 'active'),

    'tenant-config.members.invitations': ({ user_id }) =>
      findMemberships(db.manager, user_id, 'invited'),

    async 'tenant-config.members.accept'({ tenant_id, user_id }, request) {
      return commitChange(db, request, memberScope(tenant_id), async (manager, at) => {
        const tenant = await findTenant(manager, tenant_id);
        if (tenant.status === 'disabled') throw new StrataError('auth_tenant_disabled');
        const row = await findMember(manager, tenant_id, user_id);
        const membership = membershipOf(tenant, row);
        if (row.status === 'active') return { result: membership, keys: [], events: [] };
        return {
          result: membership,
          keys: [memberKey({ tenant_id, user_id })],
          events: [await admit(manager, row, at)],
        };
      });
    },

    async 'tenant-config.members.decline'({ tenant_id, user_id }, request) {
      const declined = memberEvent('declined', tenant_id, user_id, {});
      return uninvite({ tenant_id, user_id }, byThemselves(declined, user_id), db, request);
    },

    async 'tenant-config.members.lapse'({ tenant_id, user_id }, request) {
      const event = memberEvent('removed', tenant_id, user_id, { because: 'invitation_expired' });
      return uninvite({ tenant_id, user_id }, event, db, request);
    },

    /**
     * Also the last administrator: nobody keeps their account for a tenant's sake, and the
     * platform's administrators add another.
     */
    async 'tenant-config.members.erase'({ user_id }, request) {
      const provisioned = await db.manager.findBy(ScimUserEntity, { user_id });
      for (const { tenant_id } of provisioned)
        await commitChange(db, request, memberScope(tenant_id), async (manager) => {
          await leaveDirectoryGroups(manager, tenant_id, user_id);
          await manager.delete(ScimUserEntity, { tenant_id, user_id });
          return { result: undefined, keys: [], events: [] };
        });
      const memberships = await db.manager.findBy(MemberEntity, { user_id });
      for (const { tenant_id } of memberships)
        await commitChange(db, request, memberScope(tenant_id), async (manager) => {
          const row = await manager.findOneBy(MemberEntity, { tenant_id, user_id });
          if (!row) return { result: undefined, keys: [], events: [] };
          await manager.delete(MemberEntity, { tenant_id, user_id });
          const { roles, groups } = row;
          return {
            result: undefined,
            keys: [memberKey({ tenant_id, user_id })],
            events: [memberEvent('removed', tenant_id, user_id, { roles, groups })],
          };
        });
      return null;
    },

    async 'tenant-config.members.provision'({ tenant_id, user_id, body: { roles } }, request) {
      const address = { tenant_id, user_id };
      await commitChange(db, request, memberScope(tenant_id), async (manager, at) => {
        await requireTenant(manager, tenant_id);
        // Whoever is invited, perhaps to more than this, accepts that by themselves.
        const isKnown = await manager.existsBy(MemberEntity, address);
        // A sign-in brings back nobody whom an administrator or the directory has removed.
        const isRemoved =
          (await hasBeenMember(manager, tenant_id, user_id)) ||
          (await manager.existsBy(ScimUserEntity, address));
        if (isKnown || isRemoved) return { result: undefined, keys: [], events: [] };
        const joining = { manager, request, at, settings: settings(), ...address };
        const joined = await insertMember(joining, { roles, groups: [] }, true);
        return { ...joined, result: undefined };
      });
      return null;
    },
  }) satisfies Handlers;
