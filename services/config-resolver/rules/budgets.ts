/** Which budgets an automation counts against. */
import { matchesAct } from '../../../shared/budgets/matching.ts';
import type { BudgetInForce } from '../../../shared/contracts/budgets.ts';
import type { Intent } from '../../../shared/contracts/decide.ts';
import type { ExplainedConfiguration } from './decide.ts';
import { claimsRollback } from './rollback-claim.ts';

/** In their order; a rollback that is proven counts only where a budget says so. */
export function chargedBudgets(
  { over_time: limits }: Pick<ExplainedConfiguration, 'over_time'>,
  intent: Intent,
  isProven: boolean,
): BudgetInForce[] {
  const isRollback = isProven && claimsRollback(intent);
  return (limits?.budgets ?? []).filter(
    ({ rule }) =>
      matchesAct(rule.match, intent) && !(isRollback && (rule.rollbacks ?? 'count') === 'free'),
  );
}
