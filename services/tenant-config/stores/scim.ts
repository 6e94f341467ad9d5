/** The people whom a tenant's directory provisioned, with whether they are members now. */
import type { EntityManager } from 'typeorm';
import { StrataError } from '../../../shared/errors.ts';
import type { ScimFilter } from '../rules/scim.ts';
import { isUuid } from '../../../shared/schema/uuid.ts';
import type { ScimUserRow } from '../schema.ts';
import { readScimPage, type ScimPage, type ScimRows } from './scim-page.ts';

export interface FoundScimUser extends ScimUserRow {
  readonly active: boolean;
}

const select = `
  SELECT s.*, EXISTS (
    SELECT FROM tenant_config.members m WHERE m.tenant_id = s.tenant_id AND m.user_id = s.user_id
  ) AS active`;
const from = 'FROM tenant_config.scim_users s WHERE s.tenant_id = $1 AND s.deleted_at IS NULL';

export const noSuchScimUser = (): StrataError =>
  new StrataError('not_found', 'The directory has provisioned no such user here.');

/** Throws 404 where the directory has provisioned no such person in this tenant. */
export async function findScimUser(
  manager: EntityManager,
  tenantId: string,
  userId: string,
): Promise<FoundScimUser> {
  const [row] = await manager.query<FoundScimUser[]>(`${select} ${from} AND s.user_id = $2`, [
    tenantId,
    userId,
  ]);
  if (!row) throw noSuchScimUser();
  return row;
}

export const userFilters = ['userName', 'externalId', 'id'] as const;
const listed: ScimRows<(typeof userFilters)[number]> = {
  select,
  from,
  id: 's.user_id',
  columns: { userName: 'lower(s.user_name)', externalId: 's.external_id', id: 's.user_id::text' },
  order: 's.created_at, s.user_id',
};

export const listScimUsers = (
  manager: EntityManager,
  tenantId: string,
  filter: ScimFilter<(typeof userFilters)[number]> | undefined,
  page: { readonly offset: number; readonly most: number },
): Promise<ScimPage<FoundScimUser>> => readScimPage(manager, listed, tenantId, filter, page);

/**
 * The userNames of those of the users whom the directory has provisioned, by id. Ids are what the
 * directory sent, which may be any text.
 */
export async function provisionedNames(
  manager: EntityManager,
  tenantId: string,
  userIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await manager.query<{ user_id: string; user_name: string }[]>(
    `SELECT user_id, user_name FROM tenant_config.scim_users
     WHERE tenant_id = $1 AND user_id = ANY($2::uuid[]) AND deleted_at IS NULL`,
    [tenantId, userIds.filter(isUuid)],
  );
  return new Map(rows.map(({ user_id: id, user_name: name }) => [id, name]));
}
