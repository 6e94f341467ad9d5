/** What the requester of an approval changed of the notification_config in the last 24 hours. */
import type { EntityManager } from 'typeorm';
import { StrataError } from '../../../shared/errors.ts';
import type { RecentChange } from '../rules/recent-changes.ts';
import { hoursOfDistrust, unknownGiver } from '../rules/given.ts';

/** Changes of one configuration that are looked through. */
const mostChanges = 500;

/** Keeps in whose hands a change of the notification_config was, beside its history entry. */
export async function notePrincipals(
  manager: EntityManager,
  tenantId: string,
  revision: number,
  principals: readonly string[],
): Promise<void> {
  await manager.query(
    `UPDATE tenant_config.configuration_history SET principals = $3
     WHERE tenant_id = $1 AND revision = $2`,
    [tenantId, revision, JSON.stringify(principals)],
  );
}

/**
 * Newest first. Of a change from before principals were kept, service accounts' count as the
 * requester's. Throws 409 where there are too many to look through.
 */
export async function recentChanges(
  manager: EntityManager,
  tenantId: string,
  askedBy: readonly string[],
): Promise<RecentChange[]> {
  const ids = askedBy.map((principal) => principal.slice(principal.indexOf(' ') + 1));
  const rows = await manager.query<(RecentChange & { is_theirs: boolean })[]>(
    `SELECT is_theirs, CASE WHEN is_theirs THEN ${partOf('before')} END AS before,
       CASE WHEN is_theirs THEN ${partOf('after')} END AS after
     FROM (
       SELECT before, after, changed_at, revision,
         CASE WHEN principals IS NOT NULL THEN principals::jsonb ?| $5
         ELSE changed_by = ANY($2) OR EXISTS (
           SELECT FROM tenant_config.service_accounts a WHERE a.tenant_id = $1 AND a.id::text = changed_by)
         END AS is_theirs
       FROM tenant_config.configuration_history
       WHERE tenant_id = $1 AND config_type = 'notification_config' AND resource_id = $1::text
       ORDER BY revision DESC LIMIT $3
     ) AS newest
     WHERE changed_at > clock_timestamp() - make_interval(hours => $4) ORDER BY revision DESC`,
    [tenantId, ids, mostChanges, hoursOfDistrust, [...askedBy, unknownGiver]],
  );
  if (rows.length === mostChanges)
    throw new StrataError(
      'conflict',
      `The notification_config was changed ${mostChanges} times in 24 hours: who added whom is unknown. Ask again when fewer changes are that new.`,
    );
  return rows.filter((row) => row.is_theirs);
}

const partOf = (column: 'before' | 'after'): string =>
  `json_build_object('approver_groups', ${column}->'approver_groups',
     'approval_policy', ${column}->'approval_policy', 'email', ${column}->'email', 'slack', ${column}->'slack')`;
