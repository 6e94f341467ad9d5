/** The platform's budgets, one document. */
import { budgetsProblems } from '../../../shared/budgets/budgets-document.ts';
import { Budgets } from '../../../shared/contracts/budgets.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { tightensBudgets } from '../../../shared/documents/tightening.ts';
import { BudgetsEntity } from '../schema.ts';
import { singleDocument } from './platform-document.ts';

export const budgetsKind: DocumentKind<object, Budgets> = {
  ...singleDocument<Budgets>(BudgetsEntity, 'budgets'),
  schema: Budgets,
  check: ({ next, current }) => ({ refused: budgetsProblems(next, current, undefined) }),
  tightens: tightensBudgets,
};
