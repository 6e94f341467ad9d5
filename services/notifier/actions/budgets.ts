/** What the budgets of a tenant have spent. */
import type { DataSource } from 'typeorm';
import { decimalText, millionthsOf } from '../../../shared/budgets/decimal.ts';
import { periodAt } from '../../../shared/budgets/periods.ts';
import { dateAt, instantOf } from '../../../shared/budgets/wall-clock.ts';
import { budgetOfProject } from '../../../shared/budgets/project-budget.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import type { BudgetUsage } from '../../../shared/contracts/budget-usage.ts';
import type { BudgetInForce } from '../../../shared/contracts/budgets.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { ifFound, StrataError } from '../../../shared/errors.ts';
import { momentOf, timestampOf } from '../../../shared/schema/moment.ts';
import { balanceText, type Balance } from '../../../shared/budgets/evaluate.ts';
import { databaseTime } from '../stores/clock.ts';
import { readBalances, readDays } from '../stores/ledger.ts';
import { readStanding } from '../stores/standing.ts';

export const budgetActions = (db: DataSource) =>
  ({
    async 'notifier.budgets.usage'({ tenant_id: tenantId, at: asked }, request) {
      const moment = asked === undefined ? await databaseTime(db.manager) : momentOf(asked)!;
      const at = moment.getTime();
      const budgets = await budgetsOf(tenantId, request);
      const isPast = asked !== undefined;
      const balances = await readBalances(db.manager, tenantId, budgets, at, isPast);
      return {
        at: moment.toISOString(),
        items: budgets.map((budget, index) => usageOf(budget, balances[index]!, at)),
      };
    },

    'notifier.budgets.standing': ({ body: { tenant_id, budgets } }) =>
      readStanding(db.manager, tenant_id, budgets),

    async 'notifier.budgets.days'({ tenant_id: tenantId, by, name, days = 31 }, request) {
      const budgets = await budgetsOf(tenantId, request);
      const budget = budgets.find((each) => each.by === by && each.name === name);
      if (!budget) throw new StrataError('not_found', 'No such budget holds here.');
      const zone = budget.rule.timezone ?? 'UTC';
      const today = dateAt((await databaseTime(db.manager)).getTime(), zone);
      const dates = Array.from({ length: days + 1 }, (_each, index) =>
        today.add({ days: index + 1 - days }),
      );
      const midnights = dates.map((date) => new Date(instantOf(date.toPlainDateTime(), zone)));
      const balances = await readDays(db.manager, tenantId, budget, midnights);
      return {
        items: balances.map((each, index) => ({
          date: dates[index]!.toString(),
          from: midnights[index]!.toISOString(),
          until: midnights[index + 1]!.toISOString(),
          ...balanceText(each),
        })),
      };
    },
  }) satisfies Handlers;

function usageOf({ by, name, rule }: BudgetInForce, balance: Balance, at: number): BudgetUsage {
  const { from, resetsAt } = periodAt(rule, at);
  const remaining = millionthsOf(rule.amount) - balance.spent - balance.held;
  return {
    by,
    name,
    amount: rule.amount,
    rule,
    ...balanceText(balance),
    remaining: decimalText(remaining),
    from: timestampOf(from),
    resets_at: timestampOf(resetsAt),
  };
}

type Stored = ResultOf<'tenant-config.budgets.get'>;

/** All that hold in the tenant, the platform's first and those of projects last, from this node's memory. */
async function budgetsOf(
  tenantId: string,
  { call }: Pick<Request, 'call'>,
): Promise<BudgetInForce[]> {
  const [platform, tenant, projects] = await Promise.all([
    ifFound(call('global-config.budgets.get', {})),
    ifFound(call('tenant-config.budgets.get', { tenant_id: tenantId })),
    call('tenant-config.projects.enforced', { tenant_id: tenantId }),
  ]);
  const inForce = (by: BudgetInForce['by'], answer: Stored | null): BudgetInForce[] =>
    Object.entries(answer?.document ?? {}).map(([name, rule]) => ({
      by,
      name,
      rule,
      revision: answer!.revision,
    }));
  const ofProjects = projects.items.flatMap((project) => budgetOfProject(project) ?? []);
  return [...inForce('platform', platform), ...inForce('tenant', tenant), ...ofProjects];
}
