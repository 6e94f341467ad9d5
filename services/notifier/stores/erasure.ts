/** What the notifier has of a tenant that is erased. */
import type { EntityManager } from 'typeorm';

/** Rows of a table that one call removes. */
const mostAtOnce = 1000;

/**
 * What goes before what: an attempt is found by its delivery. Each statement removes at most $2
 * rows of tenant $1.
 */
const statements = [
  `DELETE FROM notifier.attempts WHERE (delivery_id, n) IN (
     SELECT a.delivery_id, a.n FROM notifier.attempts a JOIN notifier.deliveries d ON d.id = a.delivery_id
     WHERE d.tenant_id = $1 LIMIT $2)`,
  `DELETE FROM notifier.deliveries WHERE id IN (
     SELECT id FROM notifier.deliveries d WHERE tenant_id = $1
       AND NOT EXISTS (SELECT FROM notifier.attempts a WHERE a.delivery_id = d.id) LIMIT $2)`,
  `DELETE FROM notifier.slack_messages WHERE (approval_id, channel, ts) IN (
     SELECT approval_id, channel, ts FROM notifier.slack_messages WHERE tenant_id = $1 LIMIT $2)`,
  'DELETE FROM notifier.approvals WHERE id IN (SELECT id FROM notifier.approvals WHERE tenant_id = $1 LIMIT $2)',
  'DELETE FROM notifier.automations WHERE id IN (SELECT id FROM notifier.automations WHERE tenant_id = $1 LIMIT $2)',
  `DELETE FROM notifier.decisions WHERE decision_id IN (
     SELECT decision_id FROM notifier.decisions WHERE tenant_id = $1 LIMIT $2)`,
  `DELETE FROM notifier.ledger WHERE (tenant_id, budget, bucket) IN (
     SELECT tenant_id, budget, bucket FROM notifier.ledger WHERE tenant_id = $1 LIMIT $2)`,
  `DELETE FROM notifier.budget_warnings WHERE (tenant_id, budget) IN (
     SELECT tenant_id, budget FROM notifier.budget_warnings WHERE tenant_id = $1 LIMIT $2)`,
  // By the second word of the key, as channels/ makes them. The table is small and has no
  // other index.
  `DELETE FROM notifier.endpoints WHERE key IN (
     SELECT key FROM notifier.endpoints WHERE split_part(key, ' ', 2) = $1::text LIMIT $2)`,
];

/** Erases a bounded chunk, and answers whether nothing of the tenant is left. */
export async function eraseChunkOfTenant(
  manager: EntityManager,
  tenantId: string,
): Promise<boolean> {
  let isDone = true;
  for (const statement of statements) {
    const [, removed] = await manager.query<[unknown[], number]>(statement, [tenantId, mostAtOnce]);
    if (removed === mostAtOnce) isDone = false;
  }
  if (isDone)
    for (const table of ['automation_tenants', 'slack_leases'])
      await manager.query(`DELETE FROM notifier.${table} WHERE tenant_id = $1`, [tenantId]);
  return isDone;
}
