/** The people whom a tenant's directory provisioned, with whether they are members now. */
import type { EntityManager } from 'typeorm';
import { StrataError } from '../../../shared/errors.ts';
import type { ScimFilter } from '../rules/scim.ts';
import type { ScimUserRow } from '../schema.ts';

export interface FoundScimUser extends ScimUserRow {
  readonly active: boolean;
}

const found = `
  SELECT s.*, m.user_id IS NOT NULL AS active
  FROM tenant_config.scim_users s
  LEFT JOIN tenant_config.members m ON m.tenant_id = s.tenant_id AND m.user_id = s.user_id
  WHERE s.tenant_id = $1 AND s.deleted_at IS NULL`;

/** Throws 404 where the directory has provisioned no such person in this tenant. */
export async function findScimUser(
  manager: EntityManager,
  tenantId: string,
  userId: string,
): Promise<FoundScimUser> {
  const [row] = await manager.query<FoundScimUser[]>(`${found} AND s.user_id = $2`, [
    tenantId,
    userId,
  ]);
  if (!row) throw new StrataError('not_found', 'The directory has provisioned no such user here.');
  return row;
}

const columns = {
  userName: 'lower(s.user_name)',
  externalId: 's.external_id',
  id: 's.user_id::text',
};

/** A page, in the order in which they were provisioned, and how many there are. */
export async function listScimUsers(
  manager: EntityManager,
  tenantId: string,
  filter: ScimFilter | undefined,
  { offset, most }: { readonly offset: number; readonly most: number },
): Promise<{ readonly total: number; readonly rows: FoundScimUser[] }> {
  const isExact = filter?.attribute === 'externalId';
  const value = filter && (isExact ? filter.value : filter.value.toLowerCase());
  const where = filter ? `${found} AND ${columns[filter.attribute]} = $2` : found;
  const values = filter ? [tenantId, value] : [tenantId];
  const [counted] = await manager.query<[{ total: number }]>(
    `SELECT count(*)::int AS total FROM (${where}) AS all_of_them`,
    values,
  );
  const rows = await manager.query<FoundScimUser[]>(
    `${where} ORDER BY s.created_at, s.user_id OFFSET ${offset} LIMIT ${most}`,
    values,
  );
  return { total: counted.total, rows };
}
