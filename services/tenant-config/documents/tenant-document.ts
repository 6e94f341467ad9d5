import type { EntityManager, EntitySchema } from 'typeorm';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import type { ConfigType } from '../../../shared/contracts/history.ts';
import { StrataError } from '../../../shared/errors.ts';
import type { DocumentKind, Entry, Stored } from '../../../shared/documents/document.ts';
import type { Request } from '../../../shared/cluster/request.ts';
import { HistoryEntity, TenantEntity, type DocumentRow } from '../schema.ts';

export interface TenantParams {
  readonly tenant_id: string;
}

/** The part that all of a tenant's documents share: the tenant's scope, their table and the ConfigurationHistory. */
export function tenantDocument<P extends TenantParams, D extends object>({
  resource,
  configType,
  entity,
  target,
}: {
  resource: string;
  configType: ConfigType;
  entity: EntitySchema<DocumentRow>;
  target: (params: P) => string;
}): Pick<
  DocumentKind<P, D>,
  'resource' | 'scope' | 'tenantId' | 'target' | 'read' | 'save' | 'record'
> {
  return {
    resource,
    target,
    scope: ({ tenant_id }) => tenantScope(tenant_id),
    tenantId: ({ tenant_id }) => tenant_id,
    async read(manager, params) {
      const row = await manager.findOneBy(entity, {
        tenant_id: params.tenant_id,
        id: target(params),
      });
      return row && storedOf<D>(row);
    },
    async save(manager, params, row) {
      await requireTenant(manager, params.tenant_id);
      const key = { tenant_id: params.tenant_id, id: target(params) };
      if (row === null) await manager.delete(entity, key);
      else
        await manager.upsert(
          entity,
          {
            ...key,
            document: row.document,
            revision: row.revision,
            updated_by: row.updated_by,
            updated_at: new Date(row.updated_at),
          },
          ['tenant_id', 'id'],
        );
    },
    record: (manager, params, entry, request) =>
      recordHistory(
        manager,
        { configType, tenantId: params.tenant_id, target: target(params) },
        entry,
        request,
      ),
  };
}

export const storedOf = <D>({
  document,
  revision,
  updated_by,
  updated_at,
}: DocumentRow): Stored<D> => ({
  document: document as D,
  revision,
  updated_by,
  updated_at: updated_at.toISOString(),
});

/** A service or operator may name any tenant; nothing is written for one that does not exist. */
export async function requireTenant(manager: EntityManager, tenantId: string): Promise<void> {
  if (!(await manager.existsBy(TenantEntity, { id: tenantId })))
    throw new StrataError('not_found', 'There is no such tenant.');
}

export async function recordHistory(
  manager: EntityManager,
  about: { configType: ConfigType; tenantId: string; target: string },
  entry: Entry<unknown>,
  request: Pick<Request, 'caller' | 'requestId'>,
): Promise<void> {
  await manager.insert(HistoryEntity, {
    tenant_id: about.tenantId,
    revision: entry.revision,
    config_type: about.configType,
    resource_id: about.target,
    action: entry.action,
    changed_by: request.caller.id,
    changed_at: new Date(entry.at),
    reason: entry.reason,
    request_id: request.requestId,
    before: entry.before,
    after: entry.after,
  } as never);
}
