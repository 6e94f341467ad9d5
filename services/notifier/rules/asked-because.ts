/** Why an automation asks a human, in words: the same on every surface that asks. */
import type { BudgetInForce } from '../../../shared/contracts/budgets.ts';
import type { DecisionReason } from '../../../shared/contracts/decide.ts';

/** A tenant's budgets count in one currency; null where none counts money. */
export const currencyOf = (budgets: readonly BudgetInForce[]): string | null =>
  budgets.find(({ rule }) => rule.currency !== undefined)?.rule.currency ?? null;

/** Such as "30 EUR"; empty where nobody said what it costs. */
export const costText = ({
  cost_impact: cost,
  cost_currency: currency,
}: {
  readonly cost_impact?: number | null;
  readonly cost_currency?: string;
}): string => (cost == null ? '' : `${cost} ${currency ?? ''}`.trim());

/** A tenant may have hundreds of budgets, and chats take short messages. */
const mostReasons = 5;

/** One sentence for each of the first reasons that make it ask, in the order in which they decide. */
export function askedBecause(
  reasons: readonly DecisionReason[],
  currency: string | null,
): string[] {
  const all = reasons.flatMap((reason) => sentenceOf(reason, currency) ?? []);
  const more = all.length - mostReasons;
  return more > 0 ? [...all.slice(0, mostReasons), `And ${more} more.`] : all;
}

function sentenceOf(
  { rule, name, asked, limit, layer, spent, held }: DecisionReason,
  currency: string | null,
): string | undefined {
  const money = (amount: unknown): string => `${String(amount)} ${currency ?? ''}`.trim();
  switch (rule) {
    case 'max_cost_impact_auto':
      return `It costs ${money(asked)}; without an approval it may cost ${limit === null ? 'nothing' : money(limit)} (max_cost_impact_auto, ${layer}).`;
    case 'require_approval_for_high_risk':
      return `Its risk is ${String(asked)}, which needs an approval (require_approval_for_high_risk, ${layer}).`;
    case 'budget_exceeded':
      return `It costs ${money(asked)}; of budget ${name}, ${money(limit)}, ${money(spent)} are spent and ${money(held)} are held.`;
    case 'rate_exceeded':
      return `Budget ${name} allows ${String(limit)} actions, of which ${spent} are taken and ${held} are held.`;
    default:
      return undefined;
  }
}
