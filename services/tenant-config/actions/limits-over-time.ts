/** Actions on a tenant's budgets and freezes; a dry run also says, where it is asked, what they would mean. */
import type { DataSource } from 'typeorm';
import { commitChange } from '../../../shared/commits/commit.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import type { Budgets } from '../../../shared/contracts/budgets.ts';
import type { Freezes } from '../../../shared/contracts/freezes.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import type { DocumentActions, WriteVerb } from '../../../shared/documents/document.ts';
import { handlersOf, withTrials } from '../../../shared/documents/handlers.ts';
import { asksForImpact, requireReadingAll } from '../../../shared/documents/trial.ts';

type Params = ParamsOf<'tenant-config.budgets.delete'> & { readonly body?: unknown };
type Impact = ParamsOf<'config-resolver.impact.over-time'>['body'];

/** The writes of one of both documents, which `of` puts at its place among what changes. */
function tried<Document extends Budgets | Freezes>(
  db: DataSource,
  document: DocumentActions<TenantAddress, Document>,
  of: (change: { before: Document | null; after: Document | null }) => Partial<Impact>,
) {
  async function tryWithImpact(verb: WriteVerb, params: Params, request: Request) {
    requireReadingAll(
      request.caller,
      'automations:read',
      'An impact shows spending and automations',
    );
    const { impact: _impact, tenant_id: tenantId, ...own } = params;
    const work = await document.prepare(verb, { tenant_id: tenantId, ...own }, request);
    const scope = tenantScope(tenantId);
    const result = await commitChange(db, request, scope, work, { discard: true });
    const { answer, before, after } = result;
    const over_time = await request.call('config-resolver.impact.over-time', {
      body: { by: 'tenant', tenant_id: tenantId, ...of({ before, after }) },
    });
    return { ...answer, over_time };
  }
  return withTrials(document, asksForImpact, tryWithImpact);
}

export const overTimeActions = (
  db: DataSource,
  budgets: DocumentActions<TenantAddress, Budgets>,
  freezes: DocumentActions<TenantAddress, Freezes>,
) =>
  ({
    ...handlersOf(
      'tenant-config.budgets',
      tried(db, budgets, (change) => ({ budgets: change })),
    ),
    ...handlersOf(
      'tenant-config.freezes',
      tried(db, freezes, (change) => ({ freezes: change })),
    ),
  }) satisfies Handlers;
