/**
 * What the tables of commits have of a tenant, for whoever erases one: its counters, its changes in
 * the feed, its names, what it took lately.
 */
import type { EntityManager } from 'typeorm';
import { scopesOfTenant } from '../contracts/revision-scopes.ts';
import { removeSharesOf, tenantHolder } from './shares.ts';

/** Whether audit events of the tenant wait to be handed on. */
export async function hasWaitingEvents(manager: EntityManager, tenantId: string): Promise<boolean> {
  const [found] = await manager.query<{ waits: boolean }[]>(
    'SELECT EXISTS (SELECT FROM strata.outbox WHERE chain = $1) AS waits',
    [tenantId],
  );
  return found!.waits;
}

/**
 * Removes all of it. A node that has not read these changes yet is told that changes are missing,
 * and forgets what it has: so nothing is served that one of them was to drop.
 */
export async function eraseCommits(manager: EntityManager, tenantId: string): Promise<void> {
  const scopes = scopesOfTenant(tenantId);
  await manager.query(
    `WITH removed AS (DELETE FROM strata.changes WHERE scope = ANY ($1) RETURNING id)
     UPDATE strata.feed_state SET pruned = GREATEST(pruned, (SELECT max(id) FROM removed))
     WHERE EXISTS (SELECT FROM removed)`,
    [scopes],
  );
  await manager.query('DELETE FROM strata.revisions WHERE scope = ANY ($1)', [scopes]);
  await manager.query('DELETE FROM strata.managed_fields WHERE scope = ANY ($1)', [scopes]);
  await manager.query('DELETE FROM strata.temporary_changes WHERE scope = ANY ($1)', [scopes]);
  await manager.query('DELETE FROM strata.actor_names WHERE realm = $1', [tenantId]);
  await manager.query('DELETE FROM strata.usage WHERE tenant_id = $1', [tenantId]);
  await removeSharesOf(manager, tenantHolder(tenantId));
}
