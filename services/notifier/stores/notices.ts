import type { EntityManager } from 'typeorm';
import type { ApprovalRow } from '../schema.ts';
import type { Draft, Frozen, Target } from '../rules/notice.ts';
import { auditFailures, type FailedDelivery } from './failures.ts';

export const pausedReason =
  'The endpoint answered 410 Gone and is paused. Save the configuration, or replay, to use it again.';

/**
 * Puts notices into the queue, inside the transaction that makes them true. A newer configuration ends an endpoint's pause; at an
 * endpoint that is still paused they have failed at once, which is audited.
 */
export async function queueNotices(
  manager: EntityManager,
  { tenant_id: tenant, id }: ApprovalRow,
  { revision }: Frozen,
  drafts: readonly Draft[],
): Promise<void> {
  if (drafts.length === 0) return;
  // In one order everywhere, so that two transactions can't wait for each other's endpoints.
  const keys = [...new Set(drafts.map((draft) => draft.endpoint_key))].sort();
  await manager.query(
    `INSERT INTO notifier.endpoints (key, served_at, failures) SELECT k, now(), 0 FROM unnest($1::text[]) k ON CONFLICT (key) DO NOTHING`,
    [keys],
  );
  await manager.query(
    `UPDATE notifier.endpoints SET paused_revision = NULL WHERE key = ANY($1) AND paused_revision < $2`,
    [keys, revision],
  );
  const failed = await manager.query<FailedDelivery[]>(
    `WITH queued AS (
       INSERT INTO notifier.deliveries (id, tenant_id, approval_id, type, hop, channel, endpoint_key, place, target, body, state, attempts, round,
         next_attempt_at, created_at, settled_at, reason)
       SELECT d.id, $2, $3, d.type, d.hop, d.channel, d.endpoint_key, d.place, d.target, d.body,
         CASE WHEN e.paused_revision IS NULL THEN 'pending' ELSE 'failed' END, 0, 0, now(), date_trunc('milliseconds', now()),
         CASE WHEN e.paused_revision IS NULL THEN NULL ELSE now() END, CASE WHEN e.paused_revision IS NULL THEN NULL ELSE $4 END
       FROM json_to_recordset($1) AS d (id uuid, type text, hop int4, channel text, endpoint_key text, place text, target text, body text)
       JOIN notifier.endpoints e ON e.key = d.endpoint_key
       RETURNING *
     )
     SELECT id, tenant_id, approval_id, channel, target, reason, NULL::int4 AS status FROM queued WHERE state = 'failed'`,
    [JSON.stringify(drafts), tenant, id, pausedReason],
  );
  await auditFailures(manager, failed);
}

/**
 * Cancels what was not sent; answers whom the approval has reached, or may have: they are told how it ended. A lease that nobody
 * gave back is that of a send that is on its way, or whose worker died.
 */
export async function cancelUnsent(manager: EntityManager, approvalId: string): Promise<Target[]> {
  await manager.query(
    `WITH held AS (SELECT id FROM notifier.deliveries WHERE approval_id = $1 AND state = 'pending' ORDER BY id FOR UPDATE)
     UPDATE notifier.deliveries d SET state = 'cancelled', settled_at = now(), reason = 'The approval is settled.' FROM held WHERE d.id = held.id`,
    [approvalId],
  );
  return manager.query<Target[]>(
    `SELECT DISTINCT channel, place, target, endpoint_key FROM notifier.deliveries
     WHERE approval_id = $1 AND (state = 'delivered' OR attempts > 0 OR lease IS NOT NULL) ORDER BY channel, place`,
    [approvalId],
  );
}
