/** Groups of directories, and the members whose rights follow from them. */
import { isDeepStrictEqual } from 'node:util';
import type { EntityManager } from 'typeorm';
import type { Caller } from '../../../shared/access.ts';
import type { EventDraft } from '../../../shared/commits/commit.ts';
import { wholeScopeKey } from '../../../shared/contracts/feed.ts';
import { memberKey } from '../../../shared/contracts/members.ts';
import { StrataError } from '../../../shared/errors.ts';
import { diff } from '../../../shared/schema/diff.ts';
import {
  groupGiftsOf,
  noRights,
  rightsByHand,
  together,
  type GroupChange,
  type Rights,
} from '../rules/directory-groups.ts';
import { givenNow } from '../rules/given.ts';
import { memberEvent } from '../rules/member-events.ts';
import type { ScimFilter } from '../rules/scim.ts';
import { DirectoryGroupEntity, type DirectoryGroupRow, type MemberRow } from '../schema.ts';
import { giftOf } from './givers.ts';
import { readScimPage, type ScimPage, type ScimRows } from './scim-page.ts';

export const noSuchGroup = (): StrataError =>
  new StrataError('not_found', 'The directory has no such group.');

/** Throws 404 where the tenant's directory has no such group. */
export async function findDirectoryGroup(
  manager: EntityManager,
  tenantId: string,
  id: string,
): Promise<DirectoryGroupRow> {
  const row = await manager.findOneBy(DirectoryGroupEntity, { tenant_id: tenantId, id });
  if (!row) throw noSuchGroup();
  return row;
}

/**
 * What groups of the directory give each of the users; whoever is in none is not among them. The
 * people of all groups are looked up among the users: `&&` would compare each with each.
 */
export async function directoryRights(
  manager: EntityManager,
  tenantId: string,
  userIds: readonly string[],
): Promise<ReadonlyMap<string, Rights>> {
  const rows = await manager.query<(Rights & { user_id: string })[]>(
    `SELECT user_id, array_agg(DISTINCT role) FILTER (WHERE role IS NOT NULL) AS roles,
       array_agg(DISTINCT name) FILTER (WHERE name IS NOT NULL) AS groups
     FROM tenant_config.directory_groups g, unnest(g.members) AS user_id
       LEFT JOIN unnest(g.roles) AS role ON true LEFT JOIN unnest(g.groups) AS name ON true
     WHERE g.tenant_id = $1 AND user_id = ANY($2::uuid[]) GROUP BY user_id`,
    [tenantId, userIds],
  );
  return new Map(
    rows.map(({ user_id: id, roles, groups }) => [
      id,
      { roles: roles ?? [], groups: groups ?? [] },
    ]),
  );
}

export const directoryRightsOf = async (
  manager: EntityManager,
  tenantId: string,
  userId: string,
): Promise<Rights> => (await directoryRights(manager, tenantId, [userId])).get(userId) ?? noRights;

/** More than so many members at once are told to all nodes as the whole scope. */
const mostKeys = 100;

/**
 * Gives members what the groups that they are in give now, and takes what none gives any more, after
 * this change of one.
 */
export async function followDirectoryGroups(
  manager: EntityManager,
  userIds: readonly string[],
  change: GroupChange & { readonly tenant_id: string },
  { caller, at }: { readonly caller: Caller; readonly at: Date },
): Promise<{ readonly keys: string[]; readonly events: EventDraft[] }> {
  const { tenant_id: tenantId } = change;
  const rows = await manager.query<MemberRow[]>(
    'SELECT * FROM tenant_config.members WHERE tenant_id = $1 AND user_id = ANY($2) ORDER BY user_id',
    [tenantId, userIds],
  );
  const rights = await directoryRights(manager, tenantId, userIds);
  const gift = await giftOf(manager, tenantId, caller, at);
  const giftsOf = groupGiftsOf(change);
  const changed = rows.flatMap((before) => {
    const after = together(rightsByHand(before), rights.get(before.user_id) ?? noRights);
    const changes = diff(rightsAlone(before), rightsAlone(after));
    const given = givenNow(after, gift, before, giftsOf(before));
    const { by_hand: byHand, given: givenBefore } = before;
    const isSame =
      isDeepStrictEqual(byHand, after.by_hand) && isDeepStrictEqual(givenBefore ?? {}, given);
    return isSame && changes.length === 0
      ? []
      : [{ user_id: before.user_id, ...after, given, changes }];
  });
  await manager.query(
    `UPDATE tenant_config.members m
     SET roles = c.roles, groups = c.groups, by_hand = c.by_hand, given = c.given
     FROM json_to_recordset($2) AS c(user_id uuid, roles text[], groups text[], by_hand json, given json)
     WHERE m.tenant_id = $1 AND m.user_id = c.user_id`,
    [tenantId, JSON.stringify(changed)],
  );
  const others = changed.filter(({ changes }) => changes.length > 0);
  const keys = others.map(({ user_id }) => memberKey({ tenant_id: tenantId, user_id }));
  return {
    keys: keys.length > mostKeys ? [wholeScopeKey] : keys,
    events: others.map(({ user_id: id, changes }) =>
      memberEvent('updated', tenantId, id, { changes, because: 'directory_group' }),
    ),
  };
}

const rightsAlone = ({ roles, groups }: Rights): Rights => ({ roles, groups });

export const groupFilters = ['displayName', 'externalId', 'id'] as const;
const columns = 'tenant_id, id, display_name, external_id, roles, groups, created_at, updated_at';
const from = 'FROM tenant_config.directory_groups WHERE tenant_id = $1';
const listed: Omit<ScimRows<(typeof groupFilters)[number]>, 'select'> = {
  from,
  id: 'id',
  columns: { displayName: 'lower(display_name)', externalId: 'external_id', id: 'id::text' },
  order: 'created_at, id',
};

/** `members` is empty where they are not asked for: a page of groups has up to 200,000. */
export const listDirectoryGroups = (
  manager: EntityManager,
  tenantId: string,
  filter: ScimFilter<(typeof groupFilters)[number]> | undefined,
  page: { readonly offset: number; readonly most: number; readonly isWithMembers: boolean },
): Promise<ScimPage<DirectoryGroupRow>> => {
  const members = page.isWithMembers ? 'members' : `'{}'::uuid[] AS members`;
  const select = `SELECT ${columns}, ${members}`;
  return readScimPage(manager, { ...listed, select }, tenantId, filter, page);
};

/** With how many people each has in place of who they are. */
export type CountedGroup = Omit<DirectoryGroupRow, 'members'> & { readonly members: number };

/** By their ids, after one. */
export const countedGroups = (
  manager: EntityManager,
  tenantId: string,
  after: string | undefined,
  count: number,
): Promise<CountedGroup[]> =>
  manager.query(
    `SELECT ${columns}, cardinality(members) AS members ${from}
       AND ($2::uuid IS NULL OR id > $2) ORDER BY id LIMIT $3`,
    [tenantId, after ?? null, count],
  );

/** Somebody who is not among the directory's people any more is in none of its groups. */
export const leaveDirectoryGroups = (
  manager: EntityManager,
  tenantId: string,
  userId: string,
): Promise<unknown> =>
  manager.query(
    `UPDATE tenant_config.directory_groups SET members = array_remove(members, $2::uuid)
     WHERE tenant_id = $1 AND $2::uuid = ANY(members)`,
    [tenantId, userId],
  );
