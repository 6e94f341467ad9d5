/** A tenant's budgets, one document, in the platform's currency where that has one. */
import { budgetsProblems } from '../../../shared/budgets/budgets-document.ts';
import { Budgets } from '../../../shared/contracts/budgets.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { tightensBudgets } from '../../../shared/documents/tightening.ts';
import { codeOf, StrataError } from '../../../shared/errors.ts';
import { BudgetsEntity } from '../schema.ts';
import { inTable } from './tenant-document.ts';

const resourceId = ({ tenant_id }: TenantAddress): string => tenant_id;

export const budgetsKind: DocumentKind<TenantAddress, Budgets, Budgets | null> = {
  ...inTable(BudgetsEntity, {
    auditName: 'budgets',
    configType: 'budgets_config',
    actions: 'tenant-config.budgets',
    resourceId,
  }),
  schema: Budgets,
  patchCreates: true,
  /** The platform's budgets, from this node's memory; null for none. */
  async prepare(_address, { call }) {
    try {
      const { document, stale } = await call('global-config.budgets.get', {});
      if (!stale) return document;
    } catch (error) {
      if (codeOf(error) === 'not_found') return null;
      throw error;
    }
    throw new StrataError(
      'service_unavailable',
      "The platform's currency cannot be checked now, so nothing is written. Try again.",
    );
  },
  complete: (draft) => draft,
  check: ({ next, current, context }) => ({
    refused: budgetsProblems(next, current, context),
  }),
  tightens: tightensBudgets,
};
