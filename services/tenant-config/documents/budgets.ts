/** A tenant's budgets, one document, in the currency of the platform or of projects where these have one. */
import { budgetsProblems } from '../../../shared/budgets/budgets-document.ts';
import { Budgets } from '../../../shared/contracts/budgets.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { tightensBudgets } from '../../../shared/documents/tightening.ts';
import { BudgetsEntity } from '../schema.ts';
import { currencyOfProjects, platformCurrency } from '../stores/currency.ts';
import { single } from './tenant-document.ts';

export const budgetsKind: DocumentKind<TenantAddress, Budgets, string | undefined> = {
  ...single<Budgets>(BudgetsEntity, 'budgets'),
  schema: Budgets,
  /** The platform's currency, which comes first. */
  prepare: (_address, request) => platformCurrency(request),
  check: ({ next, current, context }) => ({
    refused: budgetsProblems(next, current, context),
  }),
  async checkInTransaction(manager, { tenant_id }, next, current, ofPlatform) {
    if (next === null || ofPlatform !== undefined) return [];
    return budgetsProblems(next, current, await currencyOfProjects(manager, tenant_id));
  },
  tightens: tightensBudgets,
};
