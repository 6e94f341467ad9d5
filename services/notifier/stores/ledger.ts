/**
 * What budgets have spent, in buckets of five minutes.
 *
 * | What                                    | Kept by                                                         |
 * |-----------------------------------------|-----------------------------------------------------------------|
 * | never more than the amount              | whoever charges holds the tenant's row (`lockSlots`), and reads under it |
 * | a hold is given back once, or spent once | it is settled in the transaction that ends its automation       |
 * | a hold belongs to its period            | the automation's row keeps the bucket in which it was made       |
 */
import type { DataSource, EntityManager } from 'typeorm';
import { decimalText, millionthsOf, millionthsUp } from '../../../shared/budgets/decimal.ts';
import { periodAt } from '../../../shared/budgets/periods.ts';
import { recordEvents } from '../../../shared/commits/commit.ts';
import { run, type Statement } from '../../../shared/database/prepared-statements.ts';
import type { BudgetNotice } from '../../../shared/contracts/budget-usage.ts';
import type { BudgetInForce } from '../../../shared/contracts/budgets.ts';
import { budgetNoticeType } from '../../../shared/contracts/notifier.ts';
import {
  balanceText,
  chargingOf,
  evaluate,
  ledgerKey,
  weigh,
  type Balance,
  type Charging,
  type Evaluation,
  type Warned,
} from '../../../shared/budgets/evaluate.ts';
import type { AutomationRow, Hold, Weighed } from '../schema.ts';
import { ownFacts } from './own-events.ts';

interface BalanceRow {
  readonly spent: string;
  readonly held: string;
}

const balancesOf: Statement = {
  name: 'notifier_balances',
  text: `SELECT COALESCE(sum(l.spent), 0)::text AS spent, COALESCE(sum(l.held), 0)::text AS held
     FROM unnest($2::text[], $3::timestamptz[], $4::timestamptz[])
       WITH ORDINALITY AS b (budget, since, until, place)
     LEFT JOIN notifier.ledger l ON l.tenant_id = $1 AND l.budget = b.budget
       AND l.bucket >= b.since AND l.bucket < b.until
     GROUP BY b.place ORDER BY b.place`,
};

/**
 * Of the period of each budget that `at` (Unix milliseconds) is in. What is counted later than `at`
 * counts as well, unless `isPast`: a clock that was set back forgives nothing.
 */
export async function readBalances(
  manager: EntityManager,
  tenantId: string,
  budgets: readonly BudgetInForce[],
  at: number,
  isPast = false,
): Promise<Balance[]> {
  if (budgets.length === 0) return [];
  const periods = budgets.map(({ rule }) => periodAt(rule, at));
  const rows = await run<BalanceRow>(manager, balancesOf, [
    tenantId,
    budgets.map(ledgerKey),
    periods.map(({ from }) => new Date(from)),
    periods.map(({ resetsAt }, index) => {
      if (!isPast) return 'infinity';
      return new Date(budgets[index]!.rule.window === 'rolling' ? at : resetsAt);
    }),
  ]);
  return rows.map(({ spent, held }) => ({ spent: millionthsOf(spent), held: millionthsOf(held) }));
}

/** Of the days between `midnights`, in their order. */
export async function readDays(
  manager: EntityManager,
  tenantId: string,
  budget: BudgetInForce,
  midnights: readonly Date[],
): Promise<Balance[]> {
  const rows = await manager.query<(BalanceRow & { readonly day: number })[]>(
    `SELECT width_bucket(bucket, $3::timestamptz[]) AS day,
       sum(spent)::text AS spent, sum(held)::text AS held
     FROM notifier.ledger WHERE tenant_id = $1 AND budget = $2 AND bucket >= $4 AND bucket < $5
     GROUP BY day`,
    [tenantId, ledgerKey(budget), midnights, midnights[0], midnights.at(-1)],
  );
  const byDay = new Map(rows.map(({ day, spent, held }) => [day - 1, { spent, held }]));
  return midnights.slice(1).map((_midnight, index) => {
    const { spent, held } = byDay.get(index) ?? { spent: '0', held: '0' };
    return { spent: millionthsOf(spent), held: millionthsOf(held) };
  });
}

/** What budgets say of an automation at this moment. Under the lock on the tenant's slots. */
export async function evaluateBudgets(
  manager: EntityManager,
  tenantId: string,
  budgets: readonly BudgetInForce[],
  { intent, request_id: requestId }: Pick<AutomationRow, 'intent' | 'request_id'>,
  at: Date,
): Promise<Evaluation & Charging & Pick<Weighed, 'balances'>> {
  const balances = await readBalances(manager, tenantId, budgets, at.getTime());
  const weighed = weigh(budgets, balances, intent);
  const charged = chargingOf(weighed, at.getTime());
  const before = charged.warned.filter(({ isBefore }) => isBefore);
  await noteWarned(manager, tenantId, before, requestId);
  return {
    ...evaluate(tenantId, weighed, intent, at.getTime()),
    ...charged,
    balances: budgets.map(({ by, name }, index) => ({
      by,
      name,
      ...balanceText(balances[index]!),
    })),
  };
}

const charging: Statement = {
  name: 'notifier_charge',
  text: `INSERT INTO notifier.ledger (tenant_id, budget, bucket, spent, held)
     SELECT $1, c.budget, c.bucket, c.spent, c.held
     FROM unnest($2::text[], $3::timestamptz[], $4::numeric[], $5::numeric[]) AS c (budget, bucket, spent, held)
     ON CONFLICT (tenant_id, budget, bucket) DO UPDATE SET
       spent = ledger.spent + excluded.spent, held = ledger.held + excluded.held`,
};

/** Charges one that starts, and answers its holds. Under the lock on the tenant's slots. */
export async function charge(
  manager: EntityManager,
  tenantId: string,
  { charges, warned }: Charging,
  requestId: string,
): Promise<Hold[]> {
  await noteWarned(manager, tenantId, warned, requestId);
  if (charges.length > 0)
    await run(manager, charging, [
      tenantId,
      charges.map(({ budget }) => budget),
      charges.map(({ bucket }) => new Date(bucket)),
      charges.map(({ amount, isHeld }) => (isHeld ? '0' : decimalText(amount))),
      charges.map(({ amount, isHeld }) => (isHeld ? decimalText(amount) : '0')),
    ]);
  return charges
    .filter(({ isHeld }) => isHeld)
    .map(({ budget, bucket, amount }) => ({
      budget,
      bucket: new Date(bucket).toISOString(),
      amount: decimalText(amount),
    }));
}

/**
 * Spends what automations held that have ended: what they cost, where that was said, also where it
 * is more than they held; else all of it. In the transaction that ends them, so once. Locked in one
 * order, as nothing else holds two rows of the ledger without the lock on the tenant's slots.
 */
export async function settleHolds(
  manager: EntityManager,
  ended: readonly Pick<AutomationRow, 'tenant_id' | 'holds' | 'actual_cost'>[],
): Promise<void> {
  const holds = ended.flatMap(({ tenant_id, holds: own, actual_cost: actual }) =>
    (own ?? []).map((hold) => ({
      ...hold,
      tenant_id,
      cost: actual === null ? hold.amount : decimalText(millionthsUp(actual)),
    })),
  );
  if (holds.length === 0) return;
  await manager.query(
    `UPDATE notifier.ledger l SET held = l.held - h.held, spent = l.spent + h.spent
     FROM (
       SELECT tenant_id, budget, bucket, sum(amount) AS held, sum(cost) AS spent
       FROM json_to_recordset($1) AS h (tenant_id uuid, budget text, bucket timestamptz, amount numeric, cost numeric)
       GROUP BY tenant_id, budget, bucket
     ) AS h
     WHERE l.tenant_id = h.tenant_id AND l.budget = h.budget AND l.bucket = h.bucket`,
    [JSON.stringify(holds)],
  );
}

/**
 * Says once for each period that a budget has reached its `warn_at`: in the audit now, and to people
 * by worker/warnings.ts. One that people were not told of when its next period warns is replaced. A
 * period that ends sooner than the last one is another: the budget was given shorter ones. One that
 * has ended since it was looked at is the same.
 * What is asked for and refused brings no budget anywhere, and must not use up its warning. What was
 * said already is not asked under a lock: whoever tells thousands of people holds it until all of
 * their notices are queued.
 */
async function noteWarned(
  manager: EntityManager,
  tenantId: string,
  warned: readonly Warned[],
  requestId: string,
): Promise<void> {
  if (warned.length === 0) return;
  const notices = warned.map((each) => [ledgerKey(each.budget), noticeOf(tenantId, each)] as const);
  const rows = await manager.query<{ budget: string }[]>(
    `INSERT INTO notifier.budget_warnings (tenant_id, budget, until, notice, notice_due_at)
     SELECT $1, w.budget, w.until, w.notice, now()
     FROM (SELECT budget, notice, (notice ->> 'resets_at')::timestamptz AS until
       FROM unnest($2::text[], $3::json[]) AS asked (budget, notice)) AS w
     WHERE NOT EXISTS (SELECT FROM notifier.budget_warnings b
       WHERE b.tenant_id = $1 AND b.budget = w.budget
         AND (b.until = w.until OR b.until > clock_timestamp() AND b.until <= w.until))
     ON CONFLICT (tenant_id, budget) DO UPDATE SET
       until = excluded.until, notice = excluded.notice, notice_due_at = excluded.notice_due_at
       WHERE budget_warnings.until <= clock_timestamp() OR excluded.until < budget_warnings.until
     RETURNING budget`,
    [tenantId, notices.map(([key]) => key), notices.map(([, notice]) => JSON.stringify(notice))],
  );
  const isNew = new Set(rows.map(({ budget }) => budget));
  const events = notices
    .filter(([key]) => isNew.has(key))
    .map(([, { tenant_id: _tenant, name, ...payload }]) =>
      ownFacts({ action: budgetNoticeType, tenant_id: tenantId, target: name, payload }, requestId),
    );
  if (events.length > 0) await recordEvents(manager, events);
}

const noticeOf = (
  tenantId: string,
  { budget: { by, name, rule }, balance, asked, isBefore, period }: Warned,
): BudgetNotice['data'] => ({
  tenant_id: tenantId,
  by,
  name,
  amount: rule.amount,
  ...(rule.currency !== undefined && { currency: rule.currency }),
  warn_at: rule.warn_at!,
  ...balanceText(balance),
  asked: decimalText(isBefore ? 0n : asked),
  resets_at: new Date(period.resetsAt).toISOString(),
});

/** How many budgets have come to their `warn_at` in their period, in all tenants. */
export async function countWarned(db: DataSource): Promise<number> {
  const [row] = await db.query<[{ count: number }]>(
    'SELECT count(*)::int AS count FROM notifier.budget_warnings WHERE until > now()',
  );
  return row.count;
}
