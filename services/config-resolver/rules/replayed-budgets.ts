/**
 * What budgets would have had under a proposal, in the order in which decisions were made.
 *
 * | A budget of the proposal                     | Has                                                             |
 * |----------------------------------------------|-----------------------------------------------------------------|
 * | as it was, but for its amount and its mode   | what it had then, with what automations would have charged      |
 * |                                              | otherwise since the replay begins                               |
 * | that there was not, or of another period     | what automations would have charged since the replay begins     |
 */
import { isDeepStrictEqual } from 'node:util';
import { millionthsOf, millionthsUp } from '../../../shared/budgets/decimal.ts';
import { ledgerKey, type Balance } from '../../../shared/budgets/evaluate.ts';
import { bucketOf, periodAt, type Period } from '../../../shared/budgets/periods.ts';
import type { BudgetInForce } from '../../../shared/contracts/budgets.ts';
import type { Replayable } from '../../../shared/contracts/decisions.ts';

/** Sums since the replay began, by buckets of the ledger, in their order. */
interface Line {
  readonly buckets: number[];
  /** Millionths: all that would have been charged, and how much more that is than what was. */
  readonly charged: bigint[];
  readonly more: bigint[];
}
export type SavedBudgets = readonly [
  budget: string,
  sums: readonly (readonly [number, string, string])[],
];

/** Sums that a cursor has room for. */
const mostSaved = 5000;

export class ReplayedBudgets {
  readonly #lines = new Map<string, Line>();
  readonly #periods = new WeakMap<BudgetInForce['rule'], Period>();

  /** What automations charged, and what they would have. */
  charge(
    decision: Replayable,
    before: readonly BudgetInForce[],
    after: readonly BudgetInForce[],
  ): void {
    const bucket = bucketOf(Date.parse(decision.decided_at));
    const was = new Set(before.map(ledgerKey));
    const is = new Set(after.map(ledgerKey));
    const rules = new Map([...before, ...after].map((each) => [ledgerKey(each), each.rule]));
    for (const [key, rule] of rules) {
      const amount = rule.counts === 'actions' ? oneAction : costOf(decision);
      const charged = is.has(key) ? amount : 0n;
      const more = charged - (was.has(key) ? amount : 0n);
      if (charged !== 0n || more !== 0n) this.#add(key, bucket, charged, more);
    }
  }

  #add(key: string, bucket: number, charged: bigint, more: bigint): void {
    const line = this.#lines.get(key) ?? { buckets: [], charged: [], more: [] };
    this.#lines.set(key, line);
    const last = line.buckets.length - 1;
    const isNew = last < 0 || line.buckets[last]! < bucket;
    const at = isNew ? last + 1 : last;
    const before = isNew ? last : at;
    line.buckets[at] = isNew ? bucket : line.buckets[last]!;
    line.charged[at] = (line.charged[before] ?? 0n) + charged;
    line.more[at] = (line.more[before] ?? 0n) + more;
  }

  balanceOf(
    decision: Replayable,
    budget: BudgetInForce,
    before: readonly BudgetInForce[],
  ): { readonly balance: Balance; readonly isFromRecord: boolean } {
    const from = this.#beginning(budget.rule, Date.parse(decision.judged_at));
    const line = this.#lines.get(ledgerKey(budget));
    if (!before.some((each) => isSameLedger(each, budget)))
      return {
        balance: { spent: sumSince(line, 'charged', from), held: 0n },
        isFromRecord: false,
      };
    const { spent, held } = recordedBalance(decision, budget);
    return { balance: { spent: spent + sumSince(line, 'more', from), held }, isFromRecord: true };
  }

  /** When the period of a moment began. Periods of calendars are long, and cost much to find. */
  #beginning(rule: BudgetInForce['rule'], at: number): number {
    const known = this.#periods.get(rule);
    if (known && rule.window !== 'rolling' && at >= known.from && at < known.resetsAt)
      return known.from;
    const period = periodAt(rule, at);
    this.#periods.set(rule, period);
    return period.from;
  }

  /** For a cursor; undefined where it is too much. */
  save(): SavedBudgets[] | undefined {
    const lines = [...this.#lines];
    const size = lines.reduce((sum, [, { buckets }]) => sum + buckets.length, 0);
    if (size > mostSaved) return undefined;
    return lines.map(([key, { buckets, charged, more }]) => [
      key,
      buckets.map((bucket, index) => [bucket, String(charged[index]), String(more[index])]),
    ]);
  }

  restore(saved: readonly SavedBudgets[]): void {
    for (const [key, sums] of saved)
      this.#lines.set(key, {
        buckets: sums.map(([bucket]) => bucket),
        charged: sums.map(([, charged]) => BigInt(charged)),
        more: sums.map(([, , more]) => BigInt(more)),
      });
  }
}

const oneAction = millionthsOf('1');

/** What was really charged, where that is known. */
function costOf({ actual_cost: actual, intent }: Replayable): bigint {
  const cost = actual ?? intent.cost_impact;
  return cost === undefined ? 0n : millionthsUp(cost);
}

/** What the record says that it had; nothing where the decision took nothing for spent. */
export function recordedBalance({ balances }: Replayable, { by, name }: BudgetInForce): Balance {
  const found = balances?.find((each) => each.by === by && each.name === name);
  if (!found) return { spent: 0n, held: 0n };
  return { spent: millionthsOf(found.spent), held: millionthsOf(found.held) };
}

/** Whether what one had is what the other would have had. */
function isSameLedger(one: BudgetInForce, other: BudgetInForce): boolean {
  if (ledgerKey(one) !== ledgerKey(other)) return false;
  const counted = ({ rule: { per, window, timezone, match, rollbacks } }: BudgetInForce) => ({
    per,
    window,
    timezone,
    match,
    rollbacks,
  });
  return isDeepStrictEqual(counted(one), counted(other));
}

/** Of the buckets from one on: the newest sum less the last one that is earlier. */
function sumSince(line: Line | undefined, of: 'charged' | 'more', from: number): bigint {
  if (line === undefined || line.buckets.length === 0) return 0n;
  let low = 0;
  let high = line.buckets.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (line.buckets[middle]! < from) low = middle + 1;
    else high = middle;
  }
  return line[of].at(-1)! - (line[of][low - 1] ?? 0n);
}
