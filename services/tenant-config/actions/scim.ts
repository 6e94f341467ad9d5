/**
 * Actions of SCIM: what a directory says of people becomes memberships of the one tenant. Roles are
 * not among what it says: whoever it brings is a viewer, and what the groups that they are in give
 * (scim-groups.ts).
 *
 * | Sent                      | Account                | Membership                                       |
 * |---------------------------|------------------------|--------------------------------------------------|
 * | POST, or active again     | found or made, as by an invitation | active where the tenant verified the domain, else invited |
 * | POST of a member          | stays                  | stays, roles too; the directory owns it from then on |
 * | active: false, or DELETE  | stays                  | ends, with its invitation and its sessions here  |
 */
import { isDeepStrictEqual } from 'node:util';
import { IsNull, Not, type DataSource, type EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import type { EventDraft } from '../../../shared/commits/commit.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { memberKey } from '../../../shared/contracts/members.ts';
import { mostListed } from '../../../shared/contracts/scim.ts';
import { StrataError } from '../../../shared/errors.ts';
import { diff } from '../../../shared/schema/diff.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { memberEvent } from '../rules/member-events.ts';
import { filterOf, patched, requireSameName, stateOf, type ScimState } from '../rules/scim.ts';
import { described, listed, scimUser, stateOfRow } from '../rules/scim-views.ts';
import { MemberEntity, ScimUserEntity } from '../schema.ts';
import { leaveDirectoryGroups } from '../stores/directory-groups.ts';
import { changeRights, isAdministrator, requireAdministrator } from '../stores/members.ts';
import { findScimUser, listScimUsers, noSuchScimUser, userFilters } from '../stores/scim.ts';
import { findTenant } from '../stores/tenants.ts';
import {
  insertMember,
  requireRoomToInvite,
  takeInvitation,
  tryToInvite,
  type Joining,
} from './inviting.ts';

type Address = { readonly tenant_id: string; readonly user_id: string };
type Admission = ResultOf<'auth.users.ensure'>;

const scimEvent = (
  what: string,
  { tenant_id, user_id }: Address,
  payload: unknown,
): EventDraft => ({
  action: `tenant.scim_user_${what}`,
  tenant_id,
  target: user_id,
  payload,
});

/** What is kept; whether they are active, the membership says. */
const saidOf = ({ active: _active, ...profile }: ScimState) => ({
  user_name: profile.userName,
  external_id: profile.externalId,
  profile,
});

export function scimActions(db: DataSource, settings: () => Settings) {
  const show = (row: Parameters<typeof scimUser>[0]) => scimUser(row, settings().base_url);
  return {
    ...describing(settings),

    async 'tenant-config.scim.users.list'({ tenant_id, filter, startIndex = 1, count = 100 }) {
      const first = Math.max(1, startIndex);
      const page = { offset: first - 1, most: Math.min(Math.max(0, count), mostListed) };
      const { total, rows } = await listScimUsers(
        db.manager,
        tenant_id,
        filterOf(filter, userFilters),
        page,
      );
      return listed(rows.map(show), total, first);
    },

    'tenant-config.scim.users.get': async ({ tenant_id, user_id }) =>
      show(await findScimUser(db.manager, tenant_id, user_id)),

    async 'tenant-config.scim.users.create'({ tenant_id, body }, request) {
      const state = stateOf(body);
      // Before an account is made for the address. Whose it is by now has been created already.
      await requireFreeExternalId(db.manager, { tenant_id }, state.externalId);
      const account = await admit(db, tenant_id, state.userName, settings(), request);
      const address = { tenant_id, user_id: account.id };
      const isInvited = await changeRights(db, request, tenant_id, async (manager, at) => {
        const known = await manager.findOneBy(ScimUserEntity, address);
        if (known && known.deleted_at === null) throw new StrataError('scim_uniqueness');
        await requireFreeExternalId(manager, address, state.externalId);
        const entry = { ...address, manager, request, at, settings: settings() };
        const joined = await follow(entry, state.active, account);
        const said = { ...saidOf(state), updated_at: at, deleted_at: null };
        const row = { ...address, ...said, created_at: at };
        if (known) await manager.update(ScimUserEntity, address, row);
        else await manager.insert(ScimUserEntity, row);
        const event = scimEvent('created', address, { active: state.active });
        return { ...joined, events: [...joined.events, event] };
      });
      await afterwards(db, address, { isInvited, isActive: state.active }, request);
      return show(await findScimUser(db.manager, tenant_id, account.id));
    },

    async 'tenant-config.scim.users.put'({ tenant_id, user_id, body }, request) {
      const after = stateOf(body);
      await change(db, { tenant_id, user_id }, () => after, settings, request);
      return show(await findScimUser(db.manager, tenant_id, user_id));
    },

    async 'tenant-config.scim.users.patch'({ tenant_id, user_id, body }, request) {
      const after = (before: ScimState): ScimState => patched(before, body.Operations);
      await change(db, { tenant_id, user_id }, after, settings, request);
      return show(await findScimUser(db.manager, tenant_id, user_id));
    },

    /**
     * The row stays, so that no sign-in brings the person back. Where an earlier request has written
     * it, whose commit was lost to it, this one does what was to follow.
     */
    async 'tenant-config.scim.users.delete'({ tenant_id, user_id }, request) {
      const address = { tenant_id, user_id };
      const isFound = await changeRights(db, request, tenant_id, async (manager, at) => {
        if (await isDeprovisioned(manager, address))
          return { result: false, keys: [memberKey(address)], events: [] };
        await findScimUser(manager, tenant_id, user_id);
        const { keys, events } = await leave(manager, address);
        await leaveDirectoryGroups(manager, tenant_id, user_id);
        await manager.update(ScimUserEntity, address, { deleted_at: at, external_id: null });
        return { result: true, keys, events: [...events, scimEvent('deleted', address, {})] };
      });
      await afterwards(db, address, { isInvited: false, isActive: false }, request);
      if (!isFound) throw noSuchScimUser();
      return null;
    },
  } satisfies Handlers;
}

const describing = (settings: () => Settings) =>
  ({
    'tenant-config.scim.service-provider-config': async () => described.provider,
    'tenant-config.scim.resource-types': async ({ tenant_id }) =>
      listed(described.resourceTypes(settings().base_url, tenant_id), undefined, 1),
    'tenant-config.scim.schemas': async () =>
      listed([described.userSchema, described.groupSchema], undefined, 1),
  }) satisfies Handlers;

/**
 * The account of an address, as an invitation finds or makes it: nothing of one that exists changes,
 * unless the tenant verified the domain and nobody has proved the address.
 */
async function admit(
  db: DataSource,
  tenantId: string,
  email: string,
  settings: Settings,
  request: Request,
): Promise<Admission> {
  await takeInvitation(db, tenantId, request.caller, settings);
  const tenant = await findTenant(db.manager, tenantId);
  await requireRoomToInvite(db.manager, tenantId, settings);
  return request.call('auth.users.ensure', {
    body: { email, tenant_id: tenantId, tenant_name: tenant.name },
  });
}

interface Followed {
  /** Whether somebody is to be sent an invitation. */
  readonly result: boolean;
  readonly keys: string[];
  readonly events: EventDraft[];
}
const asItWas: Followed = { result: false, keys: [], events: [] };

/** Makes the membership what the directory says, inside the caller's change. */
async function follow(
  entry: Joining,
  active: boolean,
  account: Admission | undefined,
): Promise<Followed> {
  const { manager, tenant_id, user_id } = entry;
  if (!active) return leave(manager, { tenant_id, user_id });
  if (await manager.existsBy(MemberEntity, { tenant_id, user_id })) return asItWas;
  if (account?.id !== user_id) throw new StrataError('conflict', 'The user changed. Try again.');
  const joined = await insertMember(entry, { roles: ['viewer'], groups: [] }, account.admitted);
  return { ...joined, result: !account.admitted };
}

/** Whether the directory has deleted the person, and nobody has made them a member since. */
const isDeprovisioned = async (manager: EntityManager, address: Address): Promise<boolean> =>
  (await manager.existsBy(ScimUserEntity, { ...address, deleted_at: Not(IsNull()) })) &&
  !(await manager.existsBy(MemberEntity, address));

async function leave(manager: EntityManager, address: Address): Promise<Followed> {
  const member = await manager.findOneBy(MemberEntity, address);
  if (!member) return asItWas;
  await manager.delete(MemberEntity, address);
  if (isAdministrator(member)) await requireAdministrator(manager, address.tenant_id);
  const { roles, groups } = member;
  const event = memberEvent('removed', address.tenant_id, address.user_id, { roles, groups });
  return { result: false, keys: [memberKey(address)], events: [event] };
}

async function requireFreeExternalId(
  manager: EntityManager,
  { tenant_id, user_id }: Partial<Address>,
  externalId: string | null,
): Promise<void> {
  if (externalId === null) return;
  const others = {
    tenant_id,
    ...(user_id !== undefined && { user_id: Not(user_id) }),
    external_id: externalId,
    deleted_at: IsNull(),
  };
  if (await manager.existsBy(ScimUserEntity, others)) throw new StrataError('scim_uniqueness');
}

/** What follows from the change that is committed, and may be done again. */
async function afterwards(
  db: DataSource,
  address: Address,
  { isInvited, isActive }: { readonly isInvited: boolean; readonly isActive: boolean },
  request: Request,
): Promise<void> {
  const { tenant_id: tenantId, user_id: userId } = address;
  if (isInvited) await tryToInvite(await findTenant(db.manager, tenantId), userId, request);
  if (isActive) return;
  await request.call('auth.sessions.end-in', address);
  await request.call('auth.invitations.end', address);
}

/** One person becomes what `afterOf` makes of what they are. */
async function change(
  db: DataSource,
  address: Address,
  afterOf: (before: ScimState) => ScimState,
  settings: () => Settings,
  request: Request,
): Promise<void> {
  const { tenant_id: tenantId, user_id: userId } = address;
  const found = stateOfRow(await findScimUser(db.manager, tenantId, userId));
  const wanted = afterOf(found);
  requireSameName(found, wanted);
  const returns = wanted.active && !found.active;
  const account = returns
    ? await admit(db, tenantId, found.userName, settings(), request)
    : undefined;
  const row = await changeRights(db, request, tenantId, async (manager, at) => {
    const before = stateOfRow(await findScimUser(manager, tenantId, userId));
    const after = afterOf(before);
    await requireFreeExternalId(manager, address, after.externalId);
    const entry = { ...address, manager, request, at, settings: settings() };
    const { result: isInvited, keys, events } = await follow(entry, after.active, account);
    const isActive = after.active;
    if (isDeepStrictEqual(before, after)) return { result: { isInvited, isActive }, keys, events };
    await manager.update(ScimUserEntity, address, { ...saidOf(after), updated_at: at });
    const event = scimEvent('updated', address, { changes: diff(before, after) });
    return { result: { isInvited, isActive }, keys, events: [...events, event] };
  });
  await afterwards(db, address, row, request);
}
