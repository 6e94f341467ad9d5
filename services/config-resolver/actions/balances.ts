/**
 * What budgets have left, as this node knows it. Only a start binds.
 *
 * | What this node knows                         | A decision                                             |
 * |----------------------------------------------|--------------------------------------------------------|
 * | was asked for less than `freshMs` ago        | is made by it, from memory                             |
 * | is older, of a period that is over, or of a budget that has changed | asks the notifier, once for all that ask |
 * | is old, and the notifier is away             | is made by it, and marked as stale                     |
 * | nothing, or nothing of this period           | takes nothing for spent, and warns of it               |
 */
import { LRUCache } from 'lru-cache';
import { isDeepStrictEqual } from 'node:util';
import {
  costMissing,
  evaluate,
  weigh,
  withBudgets,
  type Balance,
} from '../../../shared/budgets/evaluate.ts';
import { millionthsOf } from '../../../shared/budgets/decimal.ts';
import type { BudgetInForce } from '../../../shared/contracts/budgets.ts';
import type { Decided, Intent } from '../../../shared/contracts/decide.ts';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { isOutage } from '../../../shared/errors.ts';

type Usage = ResultOf<'notifier.budgets.usage'>;
type Call = Request['call'];

/** So old may a balance be by which a decision is made from memory, in milliseconds. */
const freshMs = 1000;
const nothing: Balance = { spent: 0n, held: 0n };

/** A budget as the notifier answered it. */
interface Known {
  readonly balance: Balance;
  readonly shown: NonNullable<Decided['budgets']>[number];
  /** Unix milliseconds. */
  readonly resetsAt: number;
}

/** An answer of the notifier, and how long it is as good as a new one. */
class Answer {
  readonly usage: Usage;
  /** In the time of performance.now(). */
  readonly freshUntil: number;
  /** Whether it is an earlier one, because the notifier is away. */
  readonly isStale: boolean;
  /** A budget in force is the same object for as long as the configuration is in memory. */
  readonly #known = new WeakMap<BudgetInForce, { readonly found: Known | undefined }>();

  constructor(usage: Usage, freshUntil: number, isStale = false) {
    this.usage = usage;
    this.freshUntil = freshUntil;
    this.isStale = isStale;
  }

  /** Undefined where the notifier did not know the budget as it is in force. */
  find(budget: BudgetInForce): Known | undefined {
    const before = this.#known.get(budget);
    if (before) return before.found;
    const found = knownOf(this.usage, budget);
    this.#known.set(budget, { found });
    return found;
  }
}

function knownOf({ at, items }: Usage, budget: BudgetInForce): Known | undefined {
  const item = items.find(({ by, name }) => by === budget.by && name === budget.name);
  if (!item || !isDeepStrictEqual(item.rule, budget.rule)) return undefined;
  const { by, name, spent, held, remaining, resets_at } = item;
  return {
    balance: { spent: millionthsOf(spent), held: millionthsOf(held) },
    shown: Object.freeze({ by, name, spent, held, remaining, resets_at, as_of: at }),
    resetsAt: Date.parse(resets_at),
  };
}

/** What a decision is weighed by. */
export interface Weighing {
  readonly tenantId: string;
  readonly decided: Decided;
  readonly budgets: readonly BudgetInForce[];
  readonly intent: Intent & { readonly at?: string };
  /** When it would be acted upon, in Unix milliseconds. */
  readonly at: number;
}

export class Balances {
  readonly #answers = new LRUCache<string, Answer>({ max: 10_000 });
  readonly #asking = new Map<string, Promise<Answer>>();

  /** The decision with what budgets say of it. Throws 422 where one counts a cost that is missing. */
  weigh(weighing: Weighing, call: Call): Decided | Promise<Decided> {
    const { tenantId, decided, budgets, intent } = weighing;
    if (budgets.length === 0) return decided;
    if (intent.at !== undefined) return weighedAt(weighing, intent.at, call);
    const answer = this.#answers.get(tenantId);
    if (answer && isGood(answer, weighing)) return weighed(weighing, answer);
    return this.#answerFor(weighing, call).then((next) => weighed(weighing, next));
  }

  /** What was asked before this decision may be of another rule or period, or old. */
  async #answerFor(weighing: Weighing, call: Call): Promise<Answer> {
    const { tenantId } = weighing;
    const before = this.#asking.get(tenantId);
    if (!before) return this.#ask(tenantId, call);
    const answer = await before;
    if (isGood(answer, weighing)) return answer;
    return this.#asking.get(tenantId) ?? this.#ask(tenantId, call);
  }

  #ask(tenantId: string, call: Call): Promise<Answer> {
    const freshUntil = performance.now() + freshMs;
    const asking = call('notifier.budgets.usage', { tenant_id: tenantId })
      .then((usage) => new Answer(usage, freshUntil))
      .catch((error: unknown) => {
        if (!isOutage(error)) throw error;
        const { usage } = this.#answers.get(tenantId) ?? { usage: { at: '', items: [] } };
        return new Answer(usage, performance.now() + freshMs, true);
      })
      .then((answer) => {
        this.#answers.set(tenantId, answer);
        return answer;
      })
      .finally(() => this.#asking.delete(tenantId));
    this.#asking.set(tenantId, asking);
    return asking;
  }
}

/** Asked for each time: it is of another period, or of the past. */
async function weighedAt(weighing: Weighing, at: string, call: Call): Promise<Decided> {
  const usage = await call('notifier.budgets.usage', { tenant_id: weighing.tenantId, at });
  return weighed(weighing, new Answer(usage, 0));
}

/** While the notifier is away it is asked again no sooner than it would be else. */
function isGood(answer: Answer, { budgets, at }: Weighing): boolean {
  if (performance.now() >= answer.freshUntil) return false;
  if (answer.isStale) return true;
  return budgets.every((budget) => {
    const known = answer.find(budget);
    return known !== undefined && at < known.resetsAt;
  });
}

function weighed(weighing: Weighing, answer: Answer): Decided {
  const { tenantId, decided, budgets, intent, at } = weighing;
  const known = budgets.map((budget) => {
    const found = answer.find(budget);
    return answer.isStale && found && at >= found.resetsAt ? undefined : found;
  });
  const balances = known.map((each) => each?.balance ?? nothing);
  const evaluation = evaluate(tenantId, weigh(budgets, balances, intent), intent, at);
  if (evaluation.isCostMissing && decided.decision !== 'deny') throw costMissing();
  const kept = withBudgets(decided, evaluation);
  const warnings = [
    ...(kept.warnings ?? []),
    ...budgets.filter((_budget, index) => known[index] === undefined).map(unknownWarning),
  ];
  return {
    ...kept,
    ...(warnings.length > 0 && { warnings }),
    budgets: known.flatMap((each) => each?.shown ?? []),
    ...(answer.isStale && { stale: true as const }),
  };
}

const unknownWarning = ({ by, name }: BudgetInForce) => ({
  path: '/action',
  message: `What the budget ${name} of the ${by} has left is not known now. A start is evaluated with what it has.`,
});
