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
import { asksForImpact, type Triable } from '../../../shared/documents/trial.ts';
import { StrataError } from '../../../shared/errors.ts';

type Params = ParamsOf<'tenant-config.budgets.delete'> & { readonly body?: unknown };
type Impact = ParamsOf<'config-resolver.impact.over-time'>['body'];

/** The writes of one of both documents, which `of` puts at its place among what changes. */
function tried<Document extends Budgets | Freezes>(
  db: DataSource,
  document: DocumentActions<TenantAddress, Document>,
  of: (change: { before: Document | null; after: Document | null }) => Partial<Impact>,
) {
  async function tryWithImpact(verb: WriteVerb, params: Params, request: Request) {
    const { scopes } = request.caller;
    if (scopes !== undefined && !scopes.includes('automations:read'))
      throw new StrataError(
        'insufficient_scope',
        'An impact shows spending and automations: the API key needs the scope automations:read, too.',
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
  return <Given extends Params & Triable, Answer>(
      verb: WriteVerb,
      write: (params: Given, request: Request) => Promise<Answer>,
    ) =>
    async (params: Given, request: Request) =>
      asksForImpact(params) ? tryWithImpact(verb, params, request) : write(params, request);
}

export function overTimeActions(
  db: DataSource,
  budgets: DocumentActions<TenantAddress, Budgets>,
  freezes: DocumentActions<TenantAddress, Freezes>,
) {
  const orTryBudgets = tried(db, budgets, (change) => ({ budgets: change }));
  const orTryFreezes = tried(db, freezes, (change) => ({ freezes: change }));
  return {
    'tenant-config.budgets.get': budgets.get,
    'tenant-config.budgets.put': orTryBudgets('put', budgets.put),
    'tenant-config.budgets.patch': orTryBudgets('patch', budgets.patch),
    'tenant-config.budgets.delete': orTryBudgets('delete', budgets.delete),
    'tenant-config.freezes.get': freezes.get,
    'tenant-config.freezes.put': orTryFreezes('put', freezes.put),
    'tenant-config.freezes.patch': orTryFreezes('patch', freezes.patch),
    'tenant-config.freezes.delete': orTryFreezes('delete', freezes.delete),
  } satisfies Handlers;
}
