/** A tenant's freezes, one document. */
import { freezesProblems } from '../../../shared/budgets/freezes-document.ts';
import { Freezes } from '../../../shared/contracts/freezes.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { tightensFreezes } from '../../../shared/documents/tightening.ts';
import { FreezesEntity } from '../schema.ts';
import { inTable } from './tenant-document.ts';

const resourceId = ({ tenant_id }: TenantAddress): string => tenant_id;
/** When it is judged, in Unix milliseconds; null for a rollback. */
type JudgedAt = number | null;

export const freezesKind: DocumentKind<TenantAddress, Freezes, JudgedAt> = {
  ...inTable(FreezesEntity, {
    auditName: 'freezes',
    configType: 'freezes_config',
    actions: 'tenant-config.freezes',
    resourceId,
  }),
  schema: Freezes,
  patchCreates: true,
  // Only a rollback, and a removal, come without a body.
  prepare: async (_address, _request, body) => (body === undefined ? null : Date.now()),
  complete: (draft) => draft,
  check: ({ next, current, context }) => ({
    refused: freezesProblems(next, current, context),
  }),
  tightens: tightensFreezes,
};
