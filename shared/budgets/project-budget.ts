/** The budget of a cloud project, as one of those that bind. */
import type { BudgetInForce } from '../contracts/budgets.ts';
import type { ProjectLimits } from '../contracts/layers.ts';
import type { Problem } from '../errors.ts';
import { decimalText, millionthsUp } from './decimal.ts';

/** The budget per month (UTC) of its instances; undefined unless it is to be enforced. */
export function budgetOfProject(
  stored: { readonly document: ProjectLimits; readonly revision: number } | null | undefined,
): BudgetInForce | undefined {
  if (!stored?.document.enforce_budget || !stored.document.budget) return undefined;
  const { project_id: name, budget } = stored.document;
  const { currency } = budget;
  const amount = decimalText(millionthsUp(budget.amount));
  return {
    by: 'project',
    name,
    rule: { amount, currency, per: 'month', match: { project_ids: [name] } },
    revision: stored.revision,
  };
}

/** What is exact as a decimal of `DecimalText`. */
const exactAmount = /^[0-9]{1,12}(\.[0-9]{1,6})?$/;

/** `currency`: that of the tenant's other budgets, where there are any. */
export function projectBudgetProblems(
  { budget, enforce_budget: isEnforced }: ProjectLimits,
  currency: string | undefined,
): Problem[] {
  if (isEnforced !== true) return [];
  if (budget === undefined)
    return [{ path: '/budget', message: 'is required where enforce_budget is true' }];
  if (!exactAmount.test(String(budget.amount)))
    return [
      {
        path: '/budget/amount',
        message: 'must have at most twelve digits before the point and six after it',
      },
    ];
  return currency === undefined || currency === budget.currency
    ? []
    : [
        {
          path: '/budget/currency',
          message: `must be ${currency}, in which other budgets here are: a tenant has one currency`,
        },
      ];
}
