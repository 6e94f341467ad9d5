/** Decisions that were recorded. */
import type { DataSource, EntityManager, SelectQueryBuilder } from 'typeorm';
import type { DecisionOfTenant, RecordedDecision } from '../../../shared/contracts/decisions.ts';
import { DecisionEntity, type DecisionRow } from '../schema.ts';

/** What is known already stays as it is: a node that got no answer sends it again. */
export async function insertDecisions(
  manager: Pick<EntityManager, 'query'>,
  decisions: readonly DecisionOfTenant[],
): Promise<void> {
  const rows = decisions.map(rowOf);
  await manager.query(
    `INSERT INTO notifier.decisions (decision_id, tenant_id, decided_at, at, intent, decided, decision, rule,
       service_id, tenant_revision, platform_revision, is_rollback_proven, stale)
     SELECT * FROM json_to_recordset($1) AS d (decision_id uuid, tenant_id uuid, decided_at timestamptz,
       at timestamptz, intent json, decided json, decision text, rule text, service_id text,
       tenant_revision int8, platform_revision int8, is_rollback_proven boolean, stale boolean)
     ON CONFLICT (decision_id) DO NOTHING`,
    [JSON.stringify(rows)],
  );
}

function rowOf(decision: DecisionOfTenant) {
  const { reasons, warnings, retry_at, budgets, revision, stale, ...rest } = decision;
  return {
    ...rest,
    decided: { reasons, warnings, retry_at, budgets },
    rule: reasons[0]?.rule ?? 'none',
    service_id: decision.intent.service_id ?? null,
    tenant_revision: revision.tenant,
    platform_revision: revision.platform,
    stale: stale === true,
  };
}

export const decisionView = (row: DecisionRow): RecordedDecision => ({
  decision_id: row.decision_id,
  decided_at: row.decided_at.toISOString(),
  at: row.at.toISOString(),
  intent: row.intent,
  is_rollback_proven: row.is_rollback_proven,
  decision: row.decision,
  ...row.decided,
  revision: { tenant: row.tenant_revision, platform: row.platform_revision },
  ...(row.stale && { stale: true as const }),
});

export interface DecisionFilter {
  readonly from?: Date | undefined;
  readonly until?: Date | undefined;
  readonly rule?: string | undefined;
  readonly decision?: string | undefined;
  readonly service_id?: string | undefined;
}

/** The newest first. */
export function decisionsOf(
  db: DataSource,
  tenantId: string,
  { from, until, ...equal }: DecisionFilter,
): SelectQueryBuilder<DecisionRow> {
  const query = db.manager
    .createQueryBuilder(DecisionEntity, 'd')
    .where('d.tenant_id = :tenantId', { tenantId });
  if (from) query.andWhere('d.decided_at >= :from', { from });
  if (until) query.andWhere('d.decided_at < :until', { until });
  for (const [column, value] of Object.entries(equal))
    if (value !== undefined) query.andWhere(`d.${column} = :${column}`, { [column]: value });
  return query.orderBy({ 'd.decided_at': 'DESC', 'd.decision_id': 'DESC' });
}

export interface CountRow {
  readonly from: Date;
  readonly rule: string;
  readonly decision: RecordedDecision['decision'];
  readonly source: 'decide' | 'automation';
  readonly count: number;
}

/** By hours or days of UTC, in their order. */
export const countDecisions = (
  db: DataSource,
  tenantId: string,
  by: 'hour' | 'day',
  from: Date,
  until: Date,
): Promise<CountRow[]> =>
  db.query(
    `SELECT date_trunc($2, decided_at, 'UTC') AS from, rule, decision, source, count(*)::int AS count FROM (
       SELECT decided_at, rule, decision, 'decide' AS source FROM notifier.decisions
       WHERE tenant_id = $1 AND decided_at >= $3 AND decided_at < $4
       UNION ALL
       SELECT created_at, COALESCE(decided->'reasons'->0->>'rule', 'none'), decided->>'decision', 'automation'
       FROM notifier.automations WHERE tenant_id = $1 AND created_at >= $3 AND created_at < $4
     ) AS made GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`,
    [tenantId, by, from, until],
  );

/**
 * Parts of at most a hundred `Replayable`, as JSON arrays, the oldest first: recorded answers of
 * `decide`, and automations as they were asked for. Each of the two is read by its own index, up to
 * the limit. The database writes the JSON, so that no thread parses it but the one that replays; a
 * text of more than 128 KiB would not be among the young objects of V8, whose collections are short.
 */
export async function replayableAfter(
  db: DataSource,
  tenantId: string,
  { from, until, after, limit }: ReplayPart,
): Promise<string[]> {
  const rows = await db.query<{ part: string }[]>(
    `SELECT json_agg(numbered ORDER BY n)::text AS part FROM (
       SELECT row_number() OVER (ORDER BY asked.decided_at, id) AS n, id, source,
         ${isoText('decided_at')} AS decided_at, ${isoText('at')} AS at, ${isoText('judged_at')} AS judged_at,
         intent, is_proven, balances, decision, reasons, tenant, platform, has_started, actual_cost, is_regranted
       FROM (
         (SELECT decision_id AS id, 'decide' AS source, decided_at, at, at AS judged_at, intent,
            is_rollback_proven AS is_proven, COALESCE(decided->'budgets', '[]') AS balances, decision,
            decided->'reasons' AS reasons, tenant_revision AS tenant, platform_revision AS platform,
            false AS has_started, NULL::float8 AS actual_cost, false AS is_regranted
          FROM notifier.decisions
          WHERE tenant_id = $1 AND decided_at >= $2 AND decided_at < $3
            AND (decided_at, decision_id) > ($4::timestamptz, $5::uuid)
          ORDER BY decided_at, decision_id LIMIT $6)
         UNION ALL
         (SELECT id, 'automation', created_at, COALESCE((weighed->>'at')::timestamptz, created_at), created_at, intent,
            (weighed->>'is_proven')::boolean, weighed->'balances', decided->>'decision',
            decided->'reasons', (decided->'revision'->>'tenant')::int8, (decided->'revision'->>'platform')::int8,
            started_at IS NOT NULL, actual_cost, state = 'denied' AND granted_at IS NOT NULL
          FROM notifier.automations
          WHERE tenant_id = $1 AND created_at >= $2 AND created_at < $3
            AND (created_at, id) > ($4::timestamptz, $5::uuid)
          ORDER BY created_at, id LIMIT $6)
       ) AS asked ORDER BY asked.decided_at, id LIMIT $6
     ) AS numbered GROUP BY (n - 1) / 100 ORDER BY min(n)`,
    [tenantId, from, until, after?.time ?? from, after?.id ?? leastId, limit],
  );
  return rows.map(({ part }) => part);
}

/** As JavaScript writes it. */
const isoText = (column: string): string =>
  `to_char(asked.${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

const leastId = '00000000-0000-0000-0000-000000000000';

interface ReplayPart {
  readonly from: string;
  readonly until: string;
  /** The last one that was answered. */
  readonly after: { readonly time: string; readonly id: string } | undefined;
  readonly limit: number;
}

/** From one tenant to the next by the indexes, whatever each of them has. */
export async function tenantsWithDecisions(
  db: DataSource,
  from: string,
  limit: number,
): Promise<string[]> {
  const rows = await db.query<{ tenant_id: string }[]>(
    `WITH RECURSIVE next AS (
       (SELECT tenant_id FROM (
          (SELECT tenant_id FROM notifier.decisions ORDER BY tenant_id LIMIT 1)
          UNION ALL (SELECT tenant_id FROM notifier.automations ORDER BY tenant_id LIMIT 1)
        ) AS first ORDER BY tenant_id LIMIT 1)
       UNION ALL
       SELECT later.tenant_id FROM next, LATERAL (SELECT tenant_id FROM (
          (SELECT tenant_id FROM notifier.decisions WHERE tenant_id > next.tenant_id ORDER BY tenant_id LIMIT 1)
          UNION ALL
          (SELECT tenant_id FROM notifier.automations WHERE tenant_id > next.tenant_id ORDER BY tenant_id LIMIT 1)
        ) AS first ORDER BY tenant_id LIMIT 1) AS later
     )
     SELECT tenant_id FROM next WHERE
       EXISTS (SELECT FROM notifier.decisions d WHERE d.tenant_id = next.tenant_id AND d.decided_at >= $1)
       OR EXISTS (SELECT FROM notifier.automations a WHERE a.tenant_id = next.tenant_id AND a.created_at >= $1)
     LIMIT $2`,
    [from, limit],
  );
  return rows.map(({ tenant_id: id }) => id);
}
