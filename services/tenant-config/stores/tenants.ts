/**
 * Tenants in the database, for every action that needs one to exist. One that is being erased does
 * not.
 */
import { IsNull, type EntityManager } from 'typeorm';
import { run, type Statement } from '../../../shared/database/prepared-statements.ts';
import { StrataError } from '../../../shared/errors.ts';
import { shownOfTenant, type ShownTenant } from '../rules/tenant-view.ts';
import { TenantEntity, type TenantRow } from '../schema.ts';

export const noSuchTenant = (): StrataError =>
  new StrataError('not_found', 'There is no such tenant.');

/** Throws 404 where there is no such tenant. */
export async function findTenant(manager: EntityManager, id: string): Promise<TenantRow> {
  const row = await manager.findOneBy(TenantEntity, { id, erasing_since: IsNull() });
  if (!row) throw noSuchTenant();
  return row;
}

/**
 * The same without its notification configuration, which may be a mebibyte: whether a tenant is active is
 * asked for at each start of an automation.
 */
export async function findShownTenant(manager: EntityManager, id: string): Promise<ShownTenant> {
  const row = await manager.findOne(TenantEntity, {
    select: shownOfTenant,
    where: { id, erasing_since: IsNull() },
  });
  if (!row) throw noSuchTenant();
  return row;
}

const tenantThatExists: Statement = {
  name: 'strata_tenant_that_exists',
  text: 'SELECT FROM tenant_config.tenants WHERE id = $1 AND erasing_since IS NULL',
};

/** Throws 404 where there is no such tenant. */
export async function requireTenant(manager: EntityManager, id: string): Promise<void> {
  const found = await run(manager, tenantThatExists, [id]);
  if (found.length === 0) throw noSuchTenant();
}

/** Found by an index of these alone, however many other tenants there are. */
export const findTenantsWithSlack = (
  manager: EntityManager,
): Promise<{ tenant_id: string; revision: number }[]> =>
  manager.query(
    `SELECT id AS tenant_id, notification_revision AS revision FROM tenant_config.tenants
     WHERE notification_config->'slack' IS NOT NULL AND status = 'active' AND erasing_since IS NULL`,
  );
