/** The platform's freezes, one document. */
import { freezesProblems } from '../../../shared/budgets/freezes-document.ts';
import { Freezes } from '../../../shared/contracts/freezes.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { tightensFreezes } from '../../../shared/documents/tightening.ts';
import { FreezesEntity } from '../schema.ts';
import { singleDocument } from './platform-document.ts';

/** When it is judged, in Unix milliseconds; null for a rollback. */
type JudgedAt = number | null;

export const freezesKind: DocumentKind<object, Freezes, JudgedAt> = {
  ...singleDocument<Freezes>(FreezesEntity, {
    auditName: 'freezes',
    configType: 'freezes_config',
    actions: 'global-config.freezes',
  }),
  schema: Freezes,
  // Only a rollback, and a removal, come without a body.
  prepare: async (_address, _request, body) => (body === undefined ? null : Date.now()),
  check: ({ next, current, context }) => ({
    refused: freezesProblems(next, current, context),
  }),
  tightens: tightensFreezes,
};
