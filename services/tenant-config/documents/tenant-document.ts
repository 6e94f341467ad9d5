/** What all of a tenant's documents have in common: the tenant's revisions, its ConfigurationHistory, and a table of one shape. */
import type { EntityManager, EntitySchema } from 'typeorm';
import type { ConfigType } from '../../../shared/contracts/history.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import { run, type Statement } from '../../../shared/database/planned-once.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { storedFrom, type DocumentRow } from '../schema.ts';
import { recordHistory } from '../stores/history.ts';
import { requireTenant } from '../stores/tenants.ts';

type OfTenant = 'auditName' | 'revisionScope' | 'tenantId' | 'resourceId' | 'recordHistory';

/** `configType` is what the history calls the kind, `resourceId` what it calls one document of it. */
export function tenantDocument<Address extends TenantAddress, Document>({
  auditName,
  configType,
  resourceId,
}: {
  readonly auditName: string;
  readonly configType: ConfigType;
  readonly resourceId: (address: Address) => string;
}): Pick<DocumentKind<Address, Document>, OfTenant | 'checkInTransaction'> {
  return {
    auditName,
    revisionScope: ({ tenant_id }) => tenantScope(tenant_id),
    tenantId: ({ tenant_id }) => tenant_id,
    resourceId,
    /** A service or an operator may name any tenant; nothing is written for one that does not exist. */
    async checkInTransaction(manager, { tenant_id }) {
      await requireTenant(manager, tenant_id);
      return [];
    },
    recordHistory: (manager, address, record, request) =>
      recordHistory(
        manager,
        { tenantId: address.tenant_id, configType, resourceId: resourceId(address) },
        record,
        request,
      ),
  };
}

type StoredRow = Pick<DocumentRow, 'document' | 'revision' | 'updated_by' | 'updated_at'>;

/** Documents kept in a table of their own, one row each. */
export function inTable<Address extends TenantAddress, Document>(
  entity: EntitySchema<DocumentRow>,
  resourceId: (address: Address) => string,
): Pick<Required<DocumentKind<Address, Document>>, 'read' | 'save' | 'remove'> {
  const { tableName } = entity.options;
  const reading: Statement = {
    name: `strata_read_${tableName}`,
    text: `SELECT document, revision, updated_by, updated_at FROM tenant_config.${tableName} WHERE tenant_id = $1 AND id = $2`,
  };
  const saving: Statement = {
    name: `strata_save_${tableName}`,
    text: `INSERT INTO tenant_config.${tableName} (tenant_id, id, document, revision, updated_by, updated_at)
     VALUES ($1, $2, $3, $4, $5, $6)
     ON CONFLICT (tenant_id, id) DO UPDATE SET (document, revision, updated_by, updated_at)
       = ROW (excluded.document, excluded.revision, excluded.updated_by, excluded.updated_at)`,
  };
  return {
    async read(manager: EntityManager, address) {
      const [row] = await run<StoredRow>(manager, reading, [
        address.tenant_id,
        resourceId(address),
      ]);
      return row ? storedFrom<Document>(row) : null;
    },
    async save(manager, address, { document, revision, updated_by: by, updated_at: at }) {
      await run(manager, saving, [
        address.tenant_id,
        resourceId(address),
        JSON.stringify(document),
        revision,
        by,
        at,
      ]);
    },
    async remove(manager, address) {
      await manager.delete(entity, { tenant_id: address.tenant_id, id: resourceId(address) });
    },
  };
}
