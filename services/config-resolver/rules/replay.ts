/**
 * Decisions of the past, replayed by the configuration at that time and by what is proposed, with the
 * same rules as those that are asked for now. The first must be what was recorded; the two are
 * compared with each other, without the slots of automations, which no configuration knows.
 */
import { isDeepStrictEqual } from 'node:util';
import { decimalText, millionthsOf, millionthsUp } from '../../../shared/budgets/decimal.ts';
import { evaluate, weigh, withBudgets, type Balance } from '../../../shared/budgets/evaluate.ts';
import type { BudgetInForce } from '../../../shared/contracts/budgets.ts';
import type { Decided, DecisionReason } from '../../../shared/contracts/decide.ts';
import type {
  Replay,
  Replayable,
  ReplayTotals,
  DecisionRule,
} from '../../../shared/contracts/decisions.ts';
import { chargedBudgets } from './budgets.ts';
import { decide, type ExplainedConfiguration } from './decide.ts';
import { ReplayedBudgets, recordedBalance } from './replayed-budgets.ts';

/** What a decision is made by; or why that is not known. */
export type Then = ExplainedConfiguration | string;

export const nothingReplayed = (): ReplayTotals => ({
  total: 0,
  same: 0,
  changed: {},
  by_rule: {},
  by_service: [],
  cost: { before: '0', after: '0' },
  unknown: {},
  baseline_differs: 0,
});

type Item = Replay['items'][number];
type Outcome = Item['before'];
type Changes = ReplayTotals['changed'];

const countIn = (counts: Record<string, number>, name: string): void => {
  counts[name] = (counts[name] ?? 0) + 1;
};

interface OfService {
  total: number;
  readonly changed: Changes;
}

export class Replaying {
  readonly budgets = new ReplayedBudgets();
  /** Whether a budget of the proposal had to begin empty. */
  hasNewBudgets = false;
  readonly #totals: ReplayTotals;
  readonly #services: Map<string | null, OfService>;
  readonly #costs: { before: bigint; after: bigint };

  /** Continues after what was counted. */
  constructor(counted: ReplayTotals) {
    this.#totals = structuredClone(counted);
    const { by_service: services, cost } = this.#totals;
    this.#services = new Map(services.map(({ service_id: id, ...each }) => [id, each]));
    this.#costs = { before: millionthsOf(cost.before), after: millionthsOf(cost.after) };
  }

  totals(): ReplayTotals {
    const { before, after } = this.#costs;
    return {
      ...this.#totals,
      by_service: [...this.#services].map(([service_id, each]) => ({ service_id, ...each })),
      cost: { before: decimalText(before), after: decimalText(after) },
    };
  }

  /** Counts a decision, and answers it where it changes. */
  look(decision: Replayable, before: Then, after: Then): Item | undefined {
    const unknown = unknownOf(decision, before, after);
    if (unknown !== undefined) {
      countIn(this.#totals.unknown, unknown);
      return undefined;
    }
    const [then, proposed] = [before, after] as [ExplainedConfiguration, ExplainedConfiguration];
    const was = made(decision, then, (budget) => recordedBalance(decision, budget));
    if (was.isCostMissing || lacksBalances(decision, was)) {
      countIn(this.#totals.unknown, was.isCostMissing ? 'cost_missing' : 'balances_not_kept');
      return undefined;
    }
    const would = made(decision, proposed, (budget) => {
      const { balance, isFromRecord } = this.budgets.balanceOf(decision, budget, was.budgets);
      this.hasNewBudgets ||= !isFromRecord;
      return balance;
    });
    if (would.isCostMissing) {
      countIn(this.#totals.unknown, 'cost_missing');
      return undefined;
    }
    if (!isAsRecorded(decision, was)) this.#totals.baseline_differs += 1;
    if (decision.source === 'automation') this.#charge(decision, was, would);
    return this.#count(decision, outcomeOf(was), outcomeOf(would));
  }

  /** One that needs an approval as it did starts as it did; what newly needs one never does. */
  #charge(decision: Replayable, was: Made, would: Made): void {
    const isAsBefore = was.decision === would.decision;
    const starts = isAsBefore ? decision.has_started : would.decision === 'allow';
    this.budgets.charge(
      decision,
      decision.has_started ? was.budgets : [],
      starts ? would.budgets : [],
    );
  }

  #count(decision: Replayable, before: Outcome, after: Outcome): Item | undefined {
    const totals = this.#totals;
    const { intent } = decision;
    totals.total += 1;
    for (const [side, { rule }] of [
      ['before', before],
      ['after', after],
    ] as const) {
      totals.by_rule[rule] ??= { before: 0, after: 0 };
      totals.by_rule[rule][side] += 1;
    }
    const costs = intent.cost_impact === undefined ? 0n : millionthsUp(intent.cost_impact);
    if (before.decision === 'allow') this.#costs.before += costs;
    if (after.decision === 'allow') this.#costs.after += costs;
    const ofService = this.#services.get(intent.service_id ?? null) ?? { total: 0, changed: {} };
    this.#services.set(intent.service_id ?? null, ofService);
    ofService.total += 1;
    if (before.decision === after.decision) {
      totals.same += 1;
      return undefined;
    }
    const change = `${before.decision}→${after.decision}`;
    countIn(totals.changed, change);
    countIn(ofService.changed, change);
    const { id, source, decided_at } = decision;
    return { id, source, decided_at, intent, before, after };
  }
}

/** Why a decision cannot be replayed; undefined where it can. */
function unknownOf(decision: Replayable, before: Then, after: Then): string | undefined {
  if (decision.is_regranted) return 'decided_at_grant';
  if (typeof before === 'string') return before;
  if (typeof after === 'string') return after;
  const { is_proven: isProven, intent } = decision;
  return isProven === null && intent.takes_back !== undefined ? 'proof_not_kept' : undefined;
}

const lacksBalances = ({ balances }: Replayable, { budgets }: Made): boolean =>
  balances === null && budgets.length > 0;

/** A decision as it is replayed. */
interface Made extends Pick<Decided, 'decision' | 'reasons'> {
  readonly budgets: readonly BudgetInForce[];
  readonly isCostMissing: boolean;
}

function made(
  { intent, at, judged_at: evaluatedAt, is_proven }: Replayable,
  configuration: ExplainedConfiguration,
  balanceOf: (budget: BudgetInForce) => Balance,
): Made {
  const isProven = is_proven === true;
  const decided = decide(configuration, intent, Date.parse(at), isProven);
  const budgets = chargedBudgets(configuration, intent, isProven);
  if (budgets.length === 0) return { ...decided, budgets, isCostMissing: false };
  const balances = budgets.map(balanceOf);
  const moment = Date.parse(evaluatedAt);
  const evaluation = evaluate(
    configuration.tenant_id,
    weigh(budgets, balances, intent),
    intent,
    moment,
  );
  const { decision, reasons } = withBudgets(decided, evaluation);
  const isCostMissing = evaluation.isCostMissing && decided.decision !== 'deny';
  return { decision, reasons, budgets, isCostMissing };
}

const outcomeOf = ({ decision, reasons }: Made): Outcome => ({
  decision,
  rule: (reasons[0]?.rule ?? 'none') satisfies DecisionRule,
});

/** Slots decided beside the configuration, and stand before what that says. */
function isAsRecorded({ decision, reasons }: Replayable, was: Made): boolean {
  const own = reasons.filter(({ rule }) => rule !== 'too_many_automations');
  const isBySlots = own.length < reasons.length;
  const isSame = isDeepStrictEqual(own.map(compared), was.reasons.map(compared));
  return isSame && (isBySlots || decision === was.decision);
}

/** As JSON keeps it, which has no members that are undefined. */
function compared(reason: DecisionReason): object {
  const isWhole = reason.asked !== undefined && reason.limit !== undefined;
  return isWhole ? reason : (JSON.parse(JSON.stringify(reason)) as object);
}
