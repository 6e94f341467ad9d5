/** Actions on a tenant's bounds; a dry run also says, where it is asked, what they would change. */
import type { DataSource } from 'typeorm';
import { differingKeys } from '../../../shared/bounds/platform-layers.ts';
import {
  decidingDocument,
  decisionsImpact,
} from '../../../shared/change-sets/deciding-documents.ts';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { commitChange, revisionOf, type Work } from '../../../shared/commits/commit.ts';
import type { Bounds } from '../../../shared/contracts/bounds.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { platformScope, tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import type { Attempt, DocumentActions, WriteVerb } from '../../../shared/documents/document.ts';
import { handlersOf, withTrials } from '../../../shared/documents/handlers.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import { asksForImpact, requireReadingAll } from '../../../shared/documents/trial.ts';
import { canonicalHash } from '../../../shared/schema/canonical-hash.ts';

type Params = ParamsOf<'tenant-config.bounds.delete'> & { readonly body?: unknown };

export function boundActions(db: DataSource, bounds: DocumentActions<TenantAddress, Bounds>) {
  async function tryWithImpact(verb: WriteVerb, params: Params, request: Request) {
    requireReadingAll(request.caller, 'config:read', 'An impact shows effective values');
    const { impact: _impact, cursor, tenant_id: tenantId, ...own } = params;
    const work = await bounds.prepare(verb, { tenant_id: tenantId, ...own }, request);
    const withBase: Work<Based> = async (manager, at, revision, policies) => {
      const platform = await revisionOf(manager, platformScope);
      const done = await work(manager, at, revision, policies);
      const base = { platform, tenant: revision - 1, at: at.toISOString() };
      return { ...done, result: { ...done.result, base } };
    };
    const scope = tenantScope(tenantId);
    const result = await commitChange(db, request, scope, withBase, { discard: true });
    const { answer, before, after, base } = result;
    const { platform, tenant } = base;
    const found = await request.call('config-resolver.impact', {
      body: {
        keys: differingKeys(before ?? {}, after ?? {}),
        tenant: { tenant_id: tenantId, before, after },
        base: canonicalHash([platform, tenant, after]),
        ...(cursor !== undefined && { cursor }),
      },
    });
    const { impact, complete, digest } = found;
    const documents = decidingDocument(bounds, { tenant_id: tenantId }, after);
    const decisions =
      cursor === undefined ? await decisionsImpact(request.call, documents, tenantId) : undefined;
    const whole = { ...impact, ...(decisions && { decisions }) };
    return { ...answer, base, digest, impact: whole, complete };
  }

  return handlersOf(
    'tenant-config.bounds',
    withTrials(bounds, asksForImpact, tryWithImpact),
  ) satisfies Handlers;
}

interface Based extends Attempt<Bounds> {
  readonly base: { readonly platform: number; readonly tenant: number; readonly at: string };
}
