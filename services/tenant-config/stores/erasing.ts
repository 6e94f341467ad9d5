/**
 * Tenants whose deletion was asked for, as the steps of an erasure (actions/erasing.ts) find them.
 */
import { randomUUID } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import { serviceCaller } from '../../../shared/access.ts';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import { eraseCommits, hasWaitingEvents } from '../../../shared/commits/erase.ts';
import { erasedAction, erasingServices } from '../../../shared/contracts/tenants.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { documentEntities } from '../schema.ts';

/** Of a tenant: its deletion was asked for $1 days ago, and nobody has taken it back. */
const due = `status = 'disabled' AND erasing_since IS NULL
  AND deletion_asked_at <= clock_timestamp() - make_interval(days => $1)`;

/** The row stays locked until the transaction ends. */
export async function isDue(
  manager: EntityManager,
  id: string,
  { tenant_erase_after_days: days }: Settings,
): Promise<boolean> {
  const found = await manager.query<unknown[]>(
    `SELECT FROM tenant_config.tenants WHERE ${due} AND id = $2 FOR UPDATE`,
    [days, id],
  );
  return found.length > 0;
}

/** Those that were asked for longest ago first. */
export async function dueTenants(
  manager: EntityManager,
  { tenant_erase_after_days: days }: Settings,
): Promise<string[]> {
  const rows = await manager.query<{ id: string }[]>(
    `SELECT id FROM tenant_config.tenants WHERE deletion_asked_at IS NOT NULL AND ${due}
     ORDER BY deletion_asked_at LIMIT 100`,
    [days],
  );
  return rows.map(({ id }) => id);
}

/**
 * Whether an erasure was cut off after it began: the tenant is gone, and documents of it are not.
 */
export async function hasDocuments(manager: EntityManager, id: string): Promise<boolean> {
  const anyOf = documentEntities
    .map(
      ({ options: { tableName } }) =>
        `EXISTS (SELECT FROM tenant_config.${tableName} WHERE tenant_id = $1)`,
    )
    .join(' OR ');
  const [found] = await manager.query<{ remain: boolean }[]>(`SELECT ${anyOf} AS remain`, [id]);
  return found!.remain;
}

/**
 * Tenants whose erasure began so long ago that requests from before have ended: one calls others,
 * each of which has the time of a request. By the clock that their beginning is of.
 */
export async function quietTenants(
  manager: EntityManager,
  { request_timeout_ms: ms }: Settings,
): Promise<string[]> {
  const rows = await manager.query<{ id: string }[]>(
    `SELECT id FROM tenant_config.tenants
     WHERE erasing_since < clock_timestamp() - make_interval(secs => $1) ORDER BY id LIMIT 1000`,
    [(2 * ms) / 1000],
  );
  return rows.map(({ id }) => id);
}

/** Removes a part of its history, and answers how many rows. */
export async function eraseHistory(
  manager: EntityManager,
  id: string,
  most: number,
): Promise<number> {
  const [, removed] = await manager.query<[unknown[], number]>(
    `DELETE FROM tenant_config.configuration_history WHERE (tenant_id, revision) IN (
       SELECT tenant_id, revision FROM tenant_config.configuration_history WHERE tenant_id = $1 LIMIT $2)`,
    [id, most],
  );
  if (removed === most) return removed;
  const [, keys] = await manager.query<[unknown[], number]>(
    `DELETE FROM tenant_config.key_changes WHERE ctid = ANY (ARRAY(
       SELECT ctid FROM tenant_config.key_changes WHERE tenant_id = $1 LIMIT $2))`,
    [id, most - removed],
  );
  if (removed + keys === most) return most;
  const [, memberships] = await manager.query<[unknown[], number]>(
    `DELETE FROM tenant_config.membership_history WHERE seq = ANY (ARRAY(
       SELECT seq FROM tenant_config.membership_history WHERE tenant_id = $1 LIMIT $2))`,
    [id, most - removed - keys],
  );
  return removed + keys + memberships;
}

/**
 * The end of an erasure: false where a service has not confirmed yet, or an event of the tenant
 * waits in the outbox, which would come to the audit after the one that ends its chain.
 */
export async function endErasure(manager: EntityManager, id: string): Promise<boolean> {
  if (await hasWaitingEvents(manager, id)) return false;
  const [, removed] = await manager.query<[unknown[], number]>(
    `DELETE FROM tenant_config.tenants
     WHERE id = $1 AND erasing_since IS NOT NULL AND erased_by @> $2::text[]`,
    [id, erasingServices],
  );
  if (removed === 0) return false;
  await eraseCommits(manager, id);
  const draft = { action: erasedAction, tenant_id: null, target: id, payload: {} };
  const by = { caller: serviceCaller('tenant-config'), requestId: randomUUID() };
  await recordEvents(manager, [auditFacts(draft, by)]);
  return true;
}
