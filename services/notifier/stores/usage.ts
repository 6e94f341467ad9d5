/**
 * Approvals that are pending and automations that are live, by tenant. Counted by the indexes on
 * just these.
 */
import type { EntityManager } from 'typeorm';
import type { FindNear } from '../../../shared/commits/usage.ts';
import type { NotifierUsage } from '../../../shared/contracts/usage.ts';
import { StrataError } from '../../../shared/errors.ts';
import { limitOf, quotaSettings } from '../../../shared/settings/quotas.ts';
import type { Settings } from '../../../shared/settings/settings.ts';

export const liveStates = "('waiting_approval', 'waiting_slot', 'running')";
const pending = "notifier.approvals WHERE state = 'pending'";
const live = `notifier.automations WHERE state IN ${liveStates}`;

export async function unendedOf(
  manager: EntityManager,
  tenantId: string,
): Promise<Record<NotifierUsage, number>> {
  const [row] = await manager.query<[Record<NotifierUsage, number>]>(
    `SELECT (SELECT count(*)::int FROM ${pending} AND tenant_id = $1) AS approvals_pending,
       (SELECT count(*)::int FROM ${live} AND tenant_id = $1) AS automations_live`,
    [tenantId],
  );
  return row;
}

/**
 * Throws `rate_limited` where the tenant has as many as it may. Under a lock that others of the
 * tenant wait for; without one, several at the same moment may pass. `own` of them are the caller's.
 */
export async function requireRoom(
  manager: EntityManager,
  tenantId: string,
  what: NotifierUsage,
  settings: Settings,
  own = 0,
): Promise<void> {
  const most = limitOf(what, settings);
  const [row] = await manager.query<[{ used: number }]>(
    `SELECT count(*)::int AS used FROM (
       SELECT FROM ${what === 'approvals_pending' ? pending : live} AND tenant_id = $1 LIMIT $2) AS counted`,
    [tenantId, most + own],
  );
  if (row.used < most + own) return;
  const words = { approvals_pending: 'approvals pending', automations_live: 'live automations' };
  throw new StrataError(
    'rate_limited',
    `The tenant has ${most} ${words[what]} (${quotaSettings[what].toUpperCase()}). Try again when some have ended.`,
    { headers: { 'retry-after': '60' } },
  );
}

export const unendedFrom: FindNear<NotifierUsage> = (manager, least, after, count) =>
  manager.query(
    `SELECT tenant_id, what, used FROM (
       SELECT tenant_id, 'approvals_pending' AS what, count(*)::int AS used FROM ${pending}
       GROUP BY tenant_id HAVING count(*) >= $1
       UNION ALL
       SELECT tenant_id, 'automations_live', count(*)::int FROM ${live}
       GROUP BY tenant_id HAVING count(*) >= $2
     ) AS near WHERE $3::text IS NULL OR (what COLLATE "C", tenant_id) > ($3, $4::uuid)
     ORDER BY what COLLATE "C", tenant_id LIMIT $5`,
    [
      least.approvals_pending,
      least.automations_live,
      after?.what ?? null,
      after?.tenant_id ?? null,
      count,
    ],
  );
