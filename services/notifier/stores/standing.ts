/**
 * What tenants have spent of some budgets, and which of their automations are live: of so many
 * tenants at a time, so that each statement is short and by the indexes of tenants.
 */
import type { EntityManager } from 'typeorm';
import { ledgerKey } from '../../../shared/budgets/evaluate.ts';
import { periodAt } from '../../../shared/budgets/periods.ts';
import type { LiveAutomations } from '../../../shared/contracts/budget-usage.ts';
import type { BudgetInForce } from '../../../shared/contracts/budgets.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { databaseTime } from './clock.ts';
import { liveStates } from './usage.ts';

type BudgetStanding = ResultOf<'notifier.budgets.standing'>;

interface Asked {
  readonly budget: BudgetInForce;
  readonly least: string;
}

const tenantsAtATime = 500;
/** Of each of both lists; after that and after this time it is said that there are more. */
const mostRows = 5000;
const patienceMs = 1500;

export async function readStanding(
  manager: EntityManager,
  tenantId: string | undefined,
  asked: readonly Asked[],
): Promise<BudgetStanding> {
  const at = await databaseTime(manager);
  const until = performance.now() + patienceMs;
  const spending: BudgetStanding['spending'] = [];
  const live: LiveAutomations[] = [];
  const isFull = (): boolean => spending.length > mostRows || live.length > mostRows;
  let after: string | null = null;
  for (;;) {
    const tenants: string[] =
      tenantId === undefined ? await nextTenants(manager, after) : [tenantId];
    const found = await liveOf(manager, tenants);
    const waiting = found.filter((each) => each.waiting > 0).map((each) => each.tenant_id);
    live.push(...found);
    spending.push(...(await spentBy(manager, tenants, { asked, waiting, at: at.getTime() })));
    const isLast = tenantId !== undefined || tenants.length < tenantsAtATime;
    if (isLast || isFull() || performance.now() > until)
      return {
        at: at.toISOString(),
        spending: spending.slice(0, mostRows),
        live: live.slice(0, mostRows),
        complete: isLast && !isFull(),
      };
    after = tenants.at(-1)!;
  }
}

/** Of those that ever had an automation. */
async function nextTenants(manager: EntityManager, after: string | null): Promise<string[]> {
  const rows = await manager.query<{ tenant_id: string }[]>(
    `SELECT tenant_id FROM notifier.automation_tenants
     WHERE $1::uuid IS NULL OR tenant_id > $1 ORDER BY tenant_id LIMIT $2`,
    [after, tenantsAtATime],
  );
  return rows.map((row) => row.tenant_id);
}

async function liveOf(manager: EntityManager, tenants: string[]): Promise<LiveAutomations[]> {
  const rows = await manager.query<{ said: LiveAutomations }[]>(
    `SELECT json_strip_nulls(json_build_object('tenant_id', tenant_id, 'agent_type', agent_type,
       'service_id', service_id, 'service_type', service_type, 'action', action,
       'risk_level', risk_level, 'is_rollback', is_rollback, 'cost_impact', cost,
       'running', count(*) FILTER (WHERE state = 'running'),
       'waiting', count(*) FILTER (WHERE state <> 'running'))) AS said
     FROM (
       SELECT tenant_id, state, intent ->> 'agent_type' AS agent_type,
         intent ->> 'service_id' AS service_id, intent ->> 'service_type' AS service_type,
         intent ->> 'action' AS action, intent ->> 'risk_level' AS risk_level,
         COALESCE((intent ->> 'is_rollback')::boolean, intent -> 'takes_back' IS NOT NULL) AS is_rollback,
         (intent ->> 'cost_impact')::float8 AS cost
       FROM notifier.automations WHERE state IN ${liveStates} AND tenant_id = ANY ($1::uuid[])
     ) AS live
     GROUP BY tenant_id, agent_type, service_id, service_type, action, risk_level, is_rollback, cost
     ORDER BY tenant_id LIMIT $2`,
    [tenants, mostRows + 1],
  );
  return rows.map(({ said }) => said);
}

async function spentBy(
  manager: EntityManager,
  tenants: string[],
  {
    asked,
    waiting,
    at,
  }: { readonly asked: readonly Asked[]; readonly waiting: string[]; readonly at: number },
): Promise<BudgetStanding['spending']> {
  if (asked.length === 0) return [];
  return manager.query<BudgetStanding['spending']>(
    `SELECT t.tenant_id, (b.place - 1)::int AS index, sum(l.spent)::text AS spent, sum(l.held)::text AS held
     FROM unnest($1::uuid[]) AS t (tenant_id)
     CROSS JOIN unnest($2::text[], $3::timestamptz[], $4::numeric[])
       WITH ORDINALITY AS b (budget, since, least, place)
     JOIN notifier.ledger l ON l.tenant_id = t.tenant_id AND l.budget = b.budget AND l.bucket >= b.since
     GROUP BY t.tenant_id, b.place, b.least
     HAVING sum(l.spent + l.held) >= b.least OR t.tenant_id = ANY ($5::uuid[])
     ORDER BY t.tenant_id, b.place LIMIT $6`,
    [
      tenants,
      asked.map(({ budget }) => ledgerKey(budget)),
      asked.map(({ budget: { rule } }) => new Date(periodAt(rule, at).from)),
      asked.map(({ least }) => least),
      waiting,
      mostRows + 1,
    ],
  );
}
