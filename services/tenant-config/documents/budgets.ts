/** A tenant's budgets, one document, in the currency of the platform or of projects where these have one. */
import { budgetsProblems } from '../../../shared/budgets/budgets-document.ts';
import { Budgets } from '../../../shared/contracts/budgets.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { tightensBudgets } from '../../../shared/documents/tightening.ts';
import { BudgetsEntity } from '../schema.ts';
import { currencyBeside } from '../stores/currency.ts';
import { inTable } from './tenant-document.ts';

const resourceId = ({ tenant_id }: TenantAddress): string => tenant_id;

export const budgetsKind: DocumentKind<TenantAddress, Budgets, string | undefined> = {
  ...inTable(BudgetsEntity, {
    auditName: 'budgets',
    configType: 'budgets_config',
    actions: 'tenant-config.budgets',
    resourceId,
  }),
  schema: Budgets,
  patchCreates: true,
  /** The currency that is given here. */
  prepare: ({ tenant_id }, request) => currencyBeside(tenant_id, request, 'budgets'),
  complete: (draft) => draft,
  check: ({ next, current, context }) => ({
    refused: budgetsProblems(next, current, context),
  }),
  tightens: tightensBudgets,
};
