/**
 * Actions of the directory's groups. What the directory says of them takes effect with the change
 * that says it: members have at once, and lose at once, what a group gives.
 *
 * | Said by | What |
 * |---|---|
 * | the directory, by SCIM | that there is a group, its name, and who of the people it provisioned is in it |
 * | an administrator | which roles and approver groups its people have by it |
 */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { Not, type DataSource, type EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import type { EventDraft } from '../../../shared/commits/commit.ts';
import { mostDirectoryGroups } from '../../../shared/contracts/scim-groups.ts';
import { mostListed } from '../../../shared/contracts/scim.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import { diff } from '../../../shared/schema/diff.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import {
  directoryGroup,
  groupState,
  groupStateOfRow,
  patchedGroup,
  requireBoundedGroup,
  scimGroup,
  type GroupState,
} from '../rules/scim-groups.ts';
import { filterOf } from '../rules/scim.ts';
import { listed } from '../rules/scim-views.ts';
import { DirectoryGroupEntity, type DirectoryGroupRow } from '../schema.ts';
import {
  countedGroups,
  findDirectoryGroup,
  followDirectoryGroups,
  groupFilters,
  listDirectoryGroups,
  noSuchGroup,
} from '../stores/directory-groups.ts';
import { changeRights } from '../stores/members.ts';
import { provisionedNames } from '../stores/scim.ts';

type Address = { readonly tenant_id: string; readonly id: string };

/** Groups with their members are large, so that there are fewer on a page. */
const mostWithMembers = 20;

const groupEvent = (what: string, { tenant_id, id }: Address, payload: unknown): EventDraft => ({
  action: `tenant.directory_group_${what}`,
  tenant_id,
  target: id,
  payload,
});

export function scimGroupActions(db: DataSource, settings: () => Settings) {
  const showAll = async (
    tenantId: string,
    rows: readonly DirectoryGroupRow[],
    isWithMembers: boolean,
  ) => {
    const ids = [...new Set(rows.flatMap(({ members }) => members))];
    const names = isWithMembers ? await provisionedNames(db.manager, tenantId, ids) : null;
    return rows.map((row) => scimGroup(row, names, settings().base_url));
  };
  const show = async (row: DirectoryGroupRow, excluded?: string) => {
    const [shown] = await showAll(row.tenant_id, [row], areMembersShown(excluded));
    return shown!;
  };
  return {
    async 'tenant-config.scim.groups.list'({
      tenant_id,
      filter,
      startIndex = 1,
      count = 100,
      excludedAttributes,
    }) {
      const first = Math.max(1, startIndex);
      const isWithMembers = areMembersShown(excludedAttributes);
      const most = Math.min(Math.max(0, count), isWithMembers ? mostWithMembers : mostListed);
      const wanted = filterOf(filter, groupFilters);
      const page = { offset: first - 1, most, isWithMembers };
      const { total, rows } = await listDirectoryGroups(db.manager, tenant_id, wanted, page);
      return listed(await showAll(tenant_id, rows, isWithMembers), total, first);
    },

    'tenant-config.scim.groups.get': async ({ tenant_id, group_id, excludedAttributes }) =>
      show(await findDirectoryGroup(db.manager, tenant_id, group_id), excludedAttributes),

    async 'tenant-config.scim.groups.create'({ tenant_id, body }, request) {
      const row = await changeRights(db, request, tenant_id, async (manager, at) => {
        const made = { tenant_id, id: randomUUID(), roles: [], groups: [], members: [] };
        const existing = await manager.countBy(DirectoryGroupEntity, { tenant_id });
        if (existing >= mostDirectoryGroups)
          throw new StrataError(
            'conflict',
            `The tenant has ${existing} groups of its directory, and none has more. Assign fewer to Strata.`,
          );
        const after = groupState(body);
        const row = { ...made, ...(await requireState(manager, made, after, [])) };
        const dated = { ...row, created_at: at, updated_at: at };
        await manager.insert(DirectoryGroupEntity, dated);
        const { displayName, members } = after;
        return {
          result: dated,
          keys: [],
          events: [groupEvent('created', made, { display_name: displayName, members })],
        };
      });
      return show(row);
    },

    async 'tenant-config.scim.groups.put'({ tenant_id, group_id: id, body }, request) {
      return show(await change(db, { tenant_id, id }, () => groupState(body), request));
    },

    async 'tenant-config.scim.groups.patch'({ tenant_id, group_id: id, body }, request) {
      const after = (before: GroupState) => patchedGroup(id, before, body.Operations);
      return show(await change(db, { tenant_id, id }, after, request));
    },

    async 'tenant-config.scim.groups.delete'({ tenant_id, group_id: id }, request) {
      const address = { tenant_id, id };
      const isFound = await changeRights(db, request, tenant_id, async (manager, at) => {
        const before = await manager.findOneBy(DirectoryGroupEntity, address);
        // An earlier request may have deleted it: without an event, what that one dropped is dropped again.
        if (!before) return { result: false, keys: [], events: [] };
        await manager.delete(DirectoryGroupEntity, address);
        const change = { ...address, before, after: null };
        const by = { caller: request.caller, at };
        const { keys, events } = await followDirectoryGroups(manager, before.members, change, by);
        const event = groupEvent('deleted', address, { display_name: before.display_name });
        return { result: true, keys, events: [event, ...events] };
      });
      if (!isFound) throw noSuchGroup();
      return null;
    },
  } satisfies Handlers;
}

/** What administrators do. */
export const directoryGroupActions = (db: DataSource) =>
  ({
    async 'tenant-config.directory-groups.list'({ tenant_id, limit = defaultLimit, cursor }) {
      const after = decodeCursor(cursor, 'id');
      const rows = await countedGroups(db.manager, tenant_id, after, limit + 1);
      return pageOf(rows, limit, ({ id }) => id, directoryGroup);
    },

    async 'tenant-config.directory-groups.put'({ tenant_id, group_id: id, body }, request) {
      const row = await changeRights(db, request, tenant_id, async (manager, at) => {
        const before = await findDirectoryGroup(manager, tenant_id, id);
        const { roles, groups } = body;
        const changes = diff({ roles: before.roles, groups: before.groups }, { roles, groups });
        if (changes.length === 0) return { result: before, keys: [], events: [] };
        const gives = { roles, groups, updated_at: at };
        await manager.update(DirectoryGroupEntity, { tenant_id, id }, gives);
        const after = { ...before, ...gives };
        const change = { tenant_id, id, before, after };
        const by = { caller: request.caller, at };
        const { keys, events } = await followDirectoryGroups(manager, before.members, change, by);
        const payload = { display_name: before.display_name, changes };
        const event = groupEvent('given', { tenant_id, id }, payload);
        return { result: after, keys, events: [event, ...events] };
      });
      return directoryGroup({ ...row, members: row.members.length });
    },
  }) satisfies Handlers;

const areMembersShown = (excluded = ''): boolean =>
  !excluded.split(',').some((name) => name.trim().toLowerCase() === 'members');

/**
 * What is kept of the state. Throws where an external id is another group's, or somebody who was not
 * in it is not of the people whom the directory has provisioned.
 */
async function requireState(
  manager: EntityManager,
  { tenant_id, id }: Address,
  state: GroupState,
  known: readonly string[],
) {
  requireBoundedGroup(state);
  const { displayName, externalId, members } = state;
  if (externalId !== null) {
    const others = { tenant_id, id: Not(id), external_id: externalId };
    if (await manager.existsBy(DirectoryGroupEntity, others))
      throw new StrataError('scim_uniqueness');
  }
  const added = members.filter((each) => !known.includes(each));
  const provisioned = await provisionedNames(manager, tenant_id, added);
  const stranger = added.find((each) => !provisioned.has(each));
  if (stranger !== undefined) {
    const message = `has ${JSON.stringify(stranger)}, whom the directory has not provisioned here`;
    throw invalid([{ path: '/members', message }]);
  }
  return { display_name: displayName, external_id: externalId, members: [...members] };
}

/** One group becomes what `afterOf` makes of what it is. */
async function change(
  db: DataSource,
  address: Address,
  afterOf: (before: GroupState) => GroupState,
  request: Request,
): Promise<DirectoryGroupRow> {
  const { tenant_id: tenantId, id } = address;
  return changeRights(db, request, tenantId, async (manager, at) => {
    const row = await findDirectoryGroup(manager, tenantId, id);
    const before = groupStateOfRow(row);
    const after = afterOf(before);
    if (isDeepStrictEqual(before, after)) return { result: row, keys: [], events: [] };
    const said = {
      ...(await requireState(manager, address, after, row.members)),
      updated_at: at,
    };
    await manager.update(DirectoryGroupEntity, { tenant_id: tenantId, id }, said);
    const [had, has] = [new Set(before.members), new Set(after.members)];
    const added = after.members.filter((each) => !had.has(each));
    const removed = before.members.filter((each) => !has.has(each));
    const moved = [...added, ...removed];
    const result = { ...row, ...said };
    const change = { ...address, before: row, after: result };
    const by = { caller: request.caller, at };
    const { keys, events } = await followDirectoryGroups(manager, moved, change, by);
    const names = diff(
      { display_name: before.displayName, external_id: before.externalId },
      { display_name: after.displayName, external_id: after.externalId },
    );
    const event = groupEvent('updated', address, { changes: names, added, removed });
    return { result, keys, events: [event, ...events] };
  });
}
