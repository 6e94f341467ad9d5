/** The rules of freezes, a tenant's and the platform's. */
import { freezesProblems } from '../budgets/freezes-document.ts';
import { Freezes } from '../contracts/freezes.ts';
import type { DocumentKind } from './document-kind.ts';
import { tightensFreezes } from './tightening.ts';

/** When it is judged, in Unix milliseconds; null for a rollback. */
export type EvaluatedAt = number | null;

type Rules = Pick<
  DocumentKind<unknown, Freezes, EvaluatedAt>,
  'schema' | 'prepare' | 'check' | 'tightens'
>;
export const freezesRules: Rules = {
  schema: Freezes,
  // Only a rollback, and a removal, come without a body.
  prepare: async (_address, _request, body) => (body === undefined ? null : Date.now()),
  check: ({ next, current, context }) => ({ refused: freezesProblems(next, current, context) }),
  tightens: tightensFreezes,
};
