/** What became of automations, by tenant, for gates of rollouts. */
import type { EntityManager } from 'typeorm';
import type { automationCounts } from '../../../shared/contracts/rollout-gates.ts';
import type { CountsOfTenant } from '../../../shared/rollouts/beside.ts';

/** The newest ones are enough to compare sides by, and reading them takes a moment. */
const mostRead = 50_000;

const counted: Readonly<Record<(typeof automationCounts)[number], { of: string; bad: string }>> = {
  denied: {
    of: 'true',
    bad: `state = 'denied' AND ($3::text IS NULL OR decided->'reasons'->0->>'rule' = $3)`,
  },
  // Those that ran and nobody finished in time are failures, too.
  failed: {
    of: 'started_at IS NOT NULL',
    bad: `$3::text IS NULL AND outcome IS DISTINCT FROM 'succeeded'`,
  },
};

/** Of automations that began and ended since then, at most the 50,000 that ended last. */
export const countsByTenant = (
  manager: EntityManager,
  figure: keyof typeof counted,
  since: Date,
  rule: string | undefined,
): Promise<CountsOfTenant[]> =>
  manager.query<CountsOfTenant[]>(
    `SELECT tenant_id, count(*)::int AS all, count(*) FILTER (WHERE ${counted[figure].bad})::int AS bad
     FROM (
       SELECT tenant_id, state, outcome, decided, started_at FROM notifier.automations
       WHERE ended_at >= $1 AND created_at >= $1 ORDER BY ended_at DESC LIMIT $2
     ) AS newest
     WHERE ${counted[figure].of} GROUP BY tenant_id`,
    [since, mostRead, rule ?? null],
  );
