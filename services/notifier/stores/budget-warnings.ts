/** Warnings of budgets that people are still to be told of. */
import type { DataSource, EntityManager } from 'typeorm';
import { runAlone } from '../../../shared/database/prepared-statements.ts';
import type { BudgetWarningRow } from '../schema.ts';

export type DueWarning = Pick<BudgetWarningRow, 'tenant_id' | 'budget'>;

/** Of so many one look sees to. */
const mostAtOnce = 50;
/** Another node, or this one, tries again what was claimed and not told. */
const claimSeconds = 10;

/** Claims those that are due. A node that dies loses its claims and nothing else. */
export const claimWarnings = (db: DataSource): Promise<DueWarning[]> =>
  runAlone<DueWarning>(db, {
    name: 'notifier_claim_warnings',
    text: `WITH due AS (
       SELECT tenant_id, budget FROM notifier.budget_warnings WHERE notice_due_at <= now()
       ORDER BY notice_due_at LIMIT ${mostAtOnce} FOR UPDATE SKIP LOCKED
     ),
     claimed AS (
       UPDATE notifier.budget_warnings w SET notice_due_at = now() + interval '${claimSeconds} seconds'
       FROM due WHERE w.tenant_id = due.tenant_id AND w.budget = due.budget
       RETURNING w.tenant_id, w.budget
     )
     SELECT * FROM claimed`,
  });

/** What people are to be told, under the lock on its row; undefined where they were, meanwhile. */
export async function lockWarning(
  manager: EntityManager,
  { tenant_id: tenantId, budget }: DueWarning,
): Promise<NonNullable<BudgetWarningRow['notice']> | undefined> {
  const [row] = await manager.query<Pick<BudgetWarningRow, 'notice'>[]>(
    `SELECT notice FROM notifier.budget_warnings
     WHERE tenant_id = $1 AND budget = $2 AND notice IS NOT NULL FOR UPDATE`,
    [tenantId, budget],
  );
  return row?.notice ?? undefined;
}

/** In the transaction that queues its notices. */
export const markNotified = (
  manager: EntityManager,
  { tenant_id: tenantId, budget }: DueWarning,
): Promise<unknown> =>
  manager.query(
    `UPDATE notifier.budget_warnings SET notice = NULL, notice_due_at = NULL
     WHERE tenant_id = $1 AND budget = $2`,
    [tenantId, budget],
  );
