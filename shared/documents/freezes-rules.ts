/** The rules of freezes, a tenant's and the platform's. */
import { freezesProblems } from '../budgets/freezes-document.ts';
import { Freezes } from '../contracts/freezes.ts';
import type { DocumentKind } from './document-kind.ts';
import { tightensFreezes } from './tightening.ts';

/** Whether what is over is refused: a rollback may restore it. */
export type IsTimed = boolean;

type Rules = Pick<
  DocumentKind<unknown, Freezes, IsTimed>,
  'schema' | 'prepare' | 'check' | 'tightens'
>;
export const freezesRules: Rules = {
  schema: Freezes,
  // Only a rollback, and a removal, come without a body.
  prepare: async (_address, _request, body) => body !== undefined,
  check: ({ next, current, context: isTimed, at }) => ({
    refused: freezesProblems(next, current, isTimed ? at.getTime() : null),
  }),
  tightens: tightensFreezes,
};
