/** The one currency in which a tenant's budgets are. */
import type { EntityManager } from 'typeorm';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { currencyIn } from '../../../shared/budgets/budgets-document.ts';
import type { Budgets } from '../../../shared/contracts/budgets.ts';
import { ifFound, StrataError } from '../../../shared/errors.ts';
import { BudgetsEntity } from '../schema.ts';
import { enforcedProjects } from './enforced-projects.ts';

/** The platform's, from this node's memory; undefined where its budgets say none. */
export async function platformCurrency({
  call,
}: Pick<Request, 'call'>): Promise<string | undefined> {
  const budgets = await ifFound(call('global-config.budgets.get', {}));
  if (!budgets) return undefined;
  if (!budgets.stale) return currencyIn(budgets.document);
  throw new StrataError(
    'service_unavailable',
    "The currency of the platform's budgets cannot be checked now, so nothing is written. Try again.",
  );
}

/** Of projects whose budget is enforced, but for the one that is written. Under the tenant's lock. */
export async function currencyOfProjects(
  manager: EntityManager,
  tenantId: string,
  written?: string,
): Promise<string | undefined> {
  const projects = await enforcedProjects(manager, tenantId);
  return projects.find(({ document }) => document.project_id !== written)?.document.budget
    ?.currency;
}

/** Of the tenant's own budgets. Under its lock. */
export async function currencyOfTenant(
  manager: EntityManager,
  tenantId: string,
): Promise<string | undefined> {
  const row = await manager.findOneBy(BudgetsEntity, { tenant_id: tenantId, id: tenantId });
  return row ? currencyIn(row.document as Budgets) : undefined;
}
