/**
 * What budgets have left, as this node knows it: decisions of one second share one question to the
 * notifier, so that asking costs it nothing more, and while it is away the last answer is fallback.
 * Only a start binds.
 */
import { LRUCache } from 'lru-cache';
import { costMissing, judge, withBudgets, type Balance } from '../../../shared/budgets/judge.ts';
import { millionthsOf } from '../../../shared/budgets/decimal.ts';
import type { BudgetInForce } from '../../../shared/contracts/budgets.ts';
import type { Decided, Intent } from '../../../shared/contracts/decide.ts';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { isOutage } from '../../../shared/errors.ts';

type Usage = ResultOf<'notifier.budgets.usage'>;
type Calls = Pick<Request, 'call'>;

/** For so long an answer is as good as a new one, in milliseconds. */
const freshMs = 1000;

export class Balances {
  readonly #known = new LRUCache<string, { readonly usage: Usage; readonly until: number }>({
    max: 10_000,
  });
  readonly #asking = new Map<string, Promise<Usage>>();

  /** Undefined where nothing is known. */
  async #now(tenantId: string, calls: Calls): Promise<Usage | undefined> {
    const known = this.#known.get(tenantId);
    if (known && performance.now() < known.until) return known.usage;
    try {
      const asking = this.#asking.get(tenantId) ?? this.#ask(tenantId, calls);
      return await asking;
    } catch (error) {
      if (!isOutage(error)) throw error;
      return known?.usage;
    }
  }

  #ask(tenantId: string, { call }: Calls): Promise<Usage> {
    const asking = call('notifier.budgets.usage', { tenant_id: tenantId })
      .then((usage) => {
        this.#known.set(tenantId, { usage, until: performance.now() + freshMs });
        return usage;
      })
      .finally(() => this.#asking.delete(tenantId));
    this.#asking.set(tenantId, asking);
    return asking;
  }

  /** The decision with what budgets say of it. Throws 422 where one counts a cost that is missing. */
  async weigh(
    tenantId: string,
    decided: Decided,
    budgets: readonly BudgetInForce[],
    intent: Intent & { readonly at?: string },
    at: number,
    calls: Calls,
  ): Promise<Decided> {
    if (budgets.length === 0) return decided;
    const usage =
      intent.at === undefined
        ? await this.#now(tenantId, calls)
        : await calls.call('notifier.budgets.usage', { tenant_id: tenantId, at: intent.at });
    const items = budgets.map(({ by, name }) =>
      usage?.items.find((each) => each.by === by && each.name === name),
    );
    const balances = items.map((item): Balance => ({
      spent: millionthsOf(item?.spent ?? '0'),
      held: millionthsOf(item?.held ?? '0'),
    }));
    const judged = judge(tenantId, budgets, balances, intent, at);
    if (judged.isCostMissing && decided.decision !== 'deny') throw costMissing();
    return {
      ...withBudgets(decided, judged),
      budgets: items.flatMap((item) => {
        if (item === undefined) return [];
        const { by, name, spent, held, remaining, resets_at } = item;
        return [{ by, name, spent, held, remaining, resets_at, as_of: usage!.at }];
      }),
    };
  }
}
