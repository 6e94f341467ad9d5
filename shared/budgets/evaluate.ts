/**
 * What budgets say of one automation: whether it fits, what it is charged, and whom that concerns.
 * Amounts are millionths, so that they are exact; times Unix milliseconds.
 */
import { decimalText, millionthsOf, millionthsUp } from './decimal.ts';
import { StrataError } from '../errors.ts';
import { timestampOf } from '../schema/moment.ts';
import { bucketOf, periodAt, type Period } from './periods.ts';
import { platformBudgetsKey, tenantBudgetsKey, type BudgetInForce } from '../contracts/budgets.ts';
import { projectKey } from '../contracts/projects.ts';
import type { Decided, DecisionReason, Intent } from '../contracts/decide.ts';

/** What a period has spent, and what automations that run may spend of it. */
export interface Balance {
  readonly spent: bigint;
  readonly held: bigint;
}

/** A part of a budget that an automation has: held while it runs, or spent at once. */
export interface Charge {
  /** The budget, as `ledgerKey` names it. */
  readonly budget: string;
  /** When the bucket begins in which it was made, and to which it belongs for good. */
  readonly bucket: number;
  readonly amount: bigint;
  readonly isHeld: boolean;
}

/** A budget that has come to its `warn_at`. */
export interface Warned {
  readonly budget: BudgetInForce;
  readonly period: Period;
  readonly balance: Balance;
  /** What was asked for in addition; it brings it there where `isBefore` is false. */
  readonly asked: bigint;
  readonly isBefore: boolean;
}

/** What an automation would be charged, and of what it would bring people a warning. */
export interface Charging {
  readonly charges: readonly Charge[];
  readonly warned: readonly Warned[];
}

export interface Evaluation {
  readonly decision: Decided['decision'];
  readonly reasons: readonly DecisionReason[];
  readonly warnings: NonNullable<Decided['warnings']>;
  /** Whether a budget that is enforced counts costs, and none was said: a missing one is not free. */
  readonly isCostMissing: boolean;
}

/** A budget beside what it has and what is asked of it. */
interface Weighed {
  readonly budget: BudgetInForce;
  readonly balance: Balance;
  readonly asked: bigint;
  /** With what is asked. */
  readonly total: bigint;
  readonly amount: bigint;
}

/**
 * What a budget is called in the ledger. What it counts is a part of the name, so that no sum is of
 * two currencies, or of costs and actions.
 */
export const ledgerKey = ({ by, name, rule }: BudgetInForce): string =>
  `${by} ${countsActions(rule) ? 'actions' : rule.currency} ${name}`;

const countsActions = ({ counts }: BudgetInForce['rule']): boolean => counts === 'actions';
const isEnforced = ({ mode }: BudgetInForce['rule']): boolean => mode !== 'warn';
const oneAction = millionthsOf('1');

/** `balances` in the order of `budgets`, each of the period that the automation would act in. */
export function weigh(
  budgets: readonly BudgetInForce[],
  balances: readonly Balance[],
  { cost_impact: cost }: Pick<Intent, 'cost_impact'>,
): Weighed[] {
  const costs = cost === undefined ? 0n : millionthsUp(cost);
  return budgets.map((budget, index) => {
    const balance = balances[index]!;
    const asked = countsActions(budget.rule) ? oneAction : costs;
    const total = balance.spent + balance.held + asked;
    return { budget, balance, asked, total, amount: millionthsOf(budget.rule.amount) };
  });
}

/** What they say of it at this moment, in Unix milliseconds. */
export function evaluate(
  tenantId: string,
  weighed: readonly Weighed[],
  { cost_impact: cost }: Pick<Intent, 'cost_impact'>,
  at: number,
): Evaluation {
  const exceeded = weighed.filter(({ total, amount }) => total > amount);
  const refusing = exceeded.filter(({ budget }) => isEnforced(budget.rule));
  const denies = refusing.some(({ budget }) => (budget.rule.over ?? 'deny') === 'deny');
  return {
    decision: refusing.length === 0 ? 'allow' : denies ? 'deny' : 'approval_required',
    reasons: refusing
      .map((each) => ({ ...each, denies: (each.budget.rule.over ?? 'deny') === 'deny' }))
      .toSorted((a, b) => Number(b.denies) - Number(a.denies))
      .map(({ budget, balance, asked }) => ({
        rule: countsActions(budget.rule)
          ? ('rate_exceeded' as const)
          : ('budget_exceeded' as const),
        asked: decimalText(asked),
        name: budget.name,
        ...balanceText(balance),
        resets_at: timestampOf(periodAt(budget.rule, at).resetsAt),
        limit: budget.rule.amount,
        layer: 'budgets' as const,
        source: sourceOf(budget, tenantId),
        revision: budget.revision,
      })),
    warnings: [
      ...mixedCurrencies(weighed),
      ...exceeded
        .filter(({ budget }) => !isEnforced(budget.rule))
        .map(({ budget }) => ({
          path: countsActions(budget.rule) ? '/action' : '/cost_impact',
          message: `Exceeds the budget ${budget.name} of the ${budget.by}, which only warns.`,
        })),
    ],
    isCostMissing:
      cost === undefined &&
      weighed.some(({ budget: { rule } }) => !countsActions(rule) && isEnforced(rule)),
  };
}

/** What it is charged where it starts at this moment, in Unix milliseconds. */
export const chargingOf = (weighed: readonly Weighed[], at: number): Charging => ({
  // Also of nothing: it may come to cost something.
  charges: weighed.map(({ budget, asked }) => ({
    budget: ledgerKey(budget),
    bucket: bucketOf(at),
    amount: asked,
    isHeld: !countsActions(budget.rule),
  })),
  warned: weighed
    .filter(({ budget, total, amount }) => reaches(budget.rule.warn_at, total, amount))
    .map(({ budget, balance, total, asked, amount }) => ({
      budget,
      balance,
      asked,
      period: periodAt(budget.rule, at),
      isBefore: reaches(budget.rule.warn_at, total - asked, amount),
    })),
});

/** The platform may get a currency when tenants have others. Each budget counts the amount as it is. */
function mixedCurrencies(weighed: readonly Weighed[]): Evaluation['warnings'] {
  const currencies = new Set<string>();
  for (const { budget } of weighed)
    if (budget.rule.currency !== undefined) currencies.add(budget.rule.currency);
  if (currencies.size < 2) return [];
  const all = [...currencies].join(' and ');
  const message = `Counts in ${all} at once, and nothing is converted: give all budgets here one currency.`;
  return [{ path: '/cost_impact', message }];
}

function sourceOf({ by, name }: BudgetInForce, tenantId: string): string {
  switch (by) {
    case 'platform':
      return platformBudgetsKey;
    case 'tenant':
      return tenantBudgetsKey({ tenant_id: tenantId });
    case 'project':
      return projectKey({ tenant_id: tenantId, project_id: name });
  }
}

export const balanceText = ({ spent, held }: Balance): { spent: string; held: string } => ({
  spent: decimalText(spent),
  held: decimalText(held),
});

const reaches = (share: number | undefined, total: bigint, amount: bigint): boolean =>
  share !== undefined && total * 1_000_000n >= millionthsUp(share) * amount;

/** A decision with what budgets say. What denies stands first, limits before budgets. */
export function withBudgets<Kept extends Pick<Decided, 'decision' | 'reasons' | 'warnings'>>(
  kept: Kept,
  { decision, reasons, warnings }: Evaluation,
): Kept {
  const isDenied = kept.decision === 'deny';
  return {
    ...kept,
    ...(decision !== 'allow' && {
      decision: isDenied ? 'deny' : decision,
      reasons: isDenied ? [...kept.reasons, ...reasons] : [...reasons, ...kept.reasons],
    }),
    ...(warnings.length > 0 && { warnings: [...(kept.warnings ?? []), ...warnings] }),
  };
}

export const costMissing = (): StrataError =>
  new StrataError('cost_impact_required', undefined, {
    errors: [
      { path: '/cost_impact', message: 'is required, because a budget of costs holds here' },
    ],
  });
