/** Tenants in the database, for every action that needs one to exist. One that is being erased does not. */
import { IsNull, type EntityManager } from 'typeorm';
import { StrataError } from '../../../shared/errors.ts';
import { TenantEntity, type TenantRow } from '../schema.ts';

const missing = (): StrataError => new StrataError('not_found', 'There is no such tenant.');

/** Throws 404 where there is no such tenant. */
export async function findTenant(manager: EntityManager, id: string): Promise<TenantRow> {
  const row = await manager.findOneBy(TenantEntity, { id, erasing_since: IsNull() });
  if (!row) throw missing();
  return row;
}

/** Throws 404 where there is no such tenant. */
export async function requireTenant(manager: EntityManager, id: string): Promise<void> {
  const exists = await manager.existsBy(TenantEntity, { id, erasing_since: IsNull() });
  if (!exists) throw missing();
}
