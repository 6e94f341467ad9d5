/**
 * What other budgets or freezes of one owner mean for tenants, as their spending and their
 * automations that run or wait stand now. What was decided stays: only starts to come are judged.
 */
import { isDeepStrictEqual } from 'node:util';
import { decimalText, millionthsOf, millionthsUp } from '../../../shared/budgets/decimal.ts';
import { frozenBy } from '../../../shared/budgets/frozen-by.ts';
import type { Balance } from '../../../shared/budgets/evaluate.ts';
import { matchesAct, matchesPlace, type Touched } from '../../../shared/budgets/matching.ts';
import { periodAt } from '../../../shared/budgets/periods.ts';
import { stretchOfAll } from '../../../shared/budgets/windows.ts';
import type { LiveAutomations } from '../../../shared/contracts/budget-usage.ts';
import type { Budget } from '../../../shared/contracts/budgets.ts';
import type { Freeze, FreezeInForce } from '../../../shared/contracts/freezes.ts';
import type { LimitsImpactItem } from '../../../shared/contracts/impact.ts';

/** A budget or freeze that is another one afterwards; absent where there is none. */
export interface Changed<Rule> {
  readonly name: string;
  readonly before?: Rule;
  readonly after?: Rule;
}

type Rules<Rule> = Readonly<Record<string, Rule>> | null;

export function changedRules<Rule extends object>(
  before: Rules<Rule>,
  after: Rules<Rule>,
): Changed<Rule>[] {
  const of = (rules: Rules<Rule>, name: string): Rule | undefined =>
    rules !== null && Object.hasOwn(rules, name) ? rules[name] : undefined;
  const names = new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})]);
  return [...names].flatMap((name) => {
    const [was, is] = [of(before, name), of(after, name)];
    if (isDeepStrictEqual(was, is)) return [];
    return [{ name, ...(was && { before: was }), ...(is && { after: is }) }];
  });
}

/** Automations that ask for the same, and what their instance is. */
export interface Live {
  readonly asked: LiveAutomations;
  readonly touched: Touched;
}

/** What is known of one tenant. Times in Unix milliseconds. */
export interface TenantActivity {
  readonly live: readonly Live[];
  readonly at: number;
}

export type Effect = Omit<LimitsImpactItem, 'tenant_id' | 'tenant_name'>;

const isEnforced = <Rule extends Budget | Freeze>(rule: Rule | undefined): rule is Rule =>
  rule !== undefined && rule.mode !== 'warn';
const countsActions = ({ counts }: Budget): boolean => counts === 'actions';
const oneAction = millionthsOf('1');
const nothing: Balance = { spent: 0n, held: 0n };

const totalOf = ({ spent, held }: Balance): bigint => spent + held;
const isSpent = (rule: Budget | undefined, balance: Balance): boolean =>
  isEnforced(rule) && totalOf(balance) >= millionthsOf(rule.amount);
const isWarned = (rule: Budget | undefined, balance: Balance): boolean =>
  rule?.warn_at !== undefined &&
  totalOf(balance) * 1_000_000n >= millionthsUp(rule.warn_at) * millionthsOf(rule.amount);

/** Above this, as millionths, a tenant's spending says something of the budget. */
export function leastOfInterest(rule: Budget): bigint {
  const amount = millionthsOf(rule.amount);
  const share = Math.min(rule.warn_at ?? 1, 1);
  return (amount * millionthsUp(share)) / 1_000_000n;
}

/** `before` and `after`: what the periods of either have spent. */
export function budgetEffect(
  { name, before, after }: Changed<Budget>,
  spent: { readonly before?: Balance | undefined; readonly after?: Balance | undefined },
  { live, at }: TenantActivity,
): Effect | undefined {
  const [was, is] = [spent.before ?? nothing, spent.after ?? nothing];
  const waiting = after ? countRefused(after, is, live) : 0;
  const effect = budgetEffectName({ before, after, was, is, waiting });
  const rule = after ?? before;
  if (effect === undefined || rule === undefined) return undefined;
  const balance = after ? is : was;
  return {
    limit: 'budget',
    name,
    effect,
    spent: decimalText(balance.spent),
    held: decimalText(balance.held),
    ...(after && { remaining: decimalText(millionthsOf(after.amount) - totalOf(is)) }),
    resets_at: new Date(periodAt(rule, at).resetsAt).toISOString(),
    running: 0,
    waiting,
  };
}

function budgetEffectName({
  before,
  after,
  was,
  is,
  waiting,
}: {
  readonly before: Budget | undefined;
  readonly after: Budget | undefined;
  readonly was: Balance;
  readonly is: Balance;
  readonly waiting: number;
}): Effect['effect'] | undefined {
  if (isSpent(after, is)) return isSpent(before, was) ? undefined : 'exhausted';
  if (isSpent(before, was)) return 'released';
  if (waiting > 0) return 'refuses';
  return isWarned(after, is) && !isWarned(before, was) ? 'warned' : undefined;
}

/** Of those that wait, how many could not start with what is left. One that asks people lets them. */
function countRefused(rule: Budget, balance: Balance, live: readonly Live[]): number {
  if (!isEnforced(rule) || rule.over === 'approval_required') return 0;
  const left = millionthsOf(rule.amount) - totalOf(balance);
  return live
    .filter(({ asked, touched }) => {
      const isFree = asked.is_rollback && rule.rollbacks === 'free';
      if (isFree || !matchesPlace(rule.match, touched) || !matchesAct(rule.match, asked))
        return false;
      const cost = asked.cost_impact === undefined ? 0n : millionthsUp(asked.cost_impact);
      return (countsActions(rule) ? oneAction : cost) > left;
    })
    .reduce((sum, { asked }) => sum + asked.waiting, 0);
}

/** Its present stretch, or else the next one; undefined where it never holds again. */
function nextStretch(rule: Freeze, at: number): { from: number; until: number | null } | undefined {
  const isOnly = rule.only_within ?? false;
  const now = stretchOfAll(rule.during, at);
  if (now.isWithin !== isOnly) return { from: at, until: now.until };
  if (now.until === null) return undefined;
  return { from: now.until, until: stretchOfAll(rule.during, now.until).until };
}

export function freezeEffect(
  { name, before, after }: Changed<Freeze>,
  { live, at }: TenantActivity,
): Effect | undefined {
  const next = isEnforced(after) ? nextStretch(after, at) : undefined;
  if (next !== undefined) {
    const newly = live.filter(
      (each) => holds(after, each, next.from) && !holds(before, each, next.from),
    );
    if (newly.length > 0) {
      const until = next.until === null ? null : new Date(next.until).toISOString();
      const from = new Date(next.from).toISOString();
      return { limit: 'freeze', name, effect: 'frozen', from, until, ...countsOf(newly) };
    }
  }
  const released = live.filter((each) => holds(before, each, at) && !holds(after, each, at));
  return released.length > 0
    ? { limit: 'freeze', name, effect: 'released', ...countsOf(released) }
    : undefined;
}

function holds(rule: Freeze | undefined, { asked, touched }: Live, at: number): boolean {
  if (!isEnforced(rule)) return false;
  const freeze: FreezeInForce = { by: 'tenant', name: '', rule, revision: 0 };
  const { action, risk_level, is_rollback: isRollback } = asked;
  return (
    matchesPlace(rule.match, touched) &&
    frozenBy([freeze], { ...touched, action, risk_level, isRollback, at }).length > 0
  );
}

const countsOf = (live: readonly Live[]): { running: number; waiting: number } => ({
  running: live.reduce((sum, { asked }) => sum + asked.running, 0),
  waiting: live.reduce((sum, { asked }) => sum + asked.waiting, 0),
});
