/**
 * What all of a tenant's documents have in common: the tenant's revisions, its
 * ConfigurationHistory, and a table of one shape.
 */
import type { EntitySchema } from 'typeorm';
import type { ConfigType } from '../../../shared/contracts/history.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import { run, type Statement } from '../../../shared/database/planned-once.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { storedFrom, type DocumentRow } from '../schema.ts';
import { historyEntry, historyValues, recordHistory, type HistoryName } from '../stores/history.ts';
import { noSuchTenant } from '../stores/tenants.ts';

/** What a kind is called: in audit events, in the history, and one document of it there. */
export interface KindNames<Address> {
  readonly auditName: string;
  readonly configType: ConfigType;
  readonly resourceId: (address: Address) => string;
}

const historyNameOf = <Address extends TenantAddress>(
  { configType, resourceId }: KindNames<Address>,
  address: Address,
): HistoryName => ({ tenantId: address.tenant_id, configType, resourceId: resourceId(address) });

type OfTenant = 'auditName' | 'revisionScope' | 'tenantId' | 'resourceId' | 'recordHistory';

export function tenantDocument<Address extends TenantAddress, Document>(
  names: KindNames<Address>,
): Pick<DocumentKind<Address, Document>, OfTenant> {
  return {
    auditName: names.auditName,
    revisionScope: ({ tenant_id }) => tenantScope(tenant_id),
    tenantId: ({ tenant_id }) => tenant_id,
    resourceId: names.resourceId,
    recordHistory: (manager, address, record, request) =>
      recordHistory(manager, historyNameOf(names, address), record, request),
  };
}

type StoredRow = Pick<DocumentRow, 'document' | 'revision' | 'updated_by' | 'updated_at'>;
/** The other columns are null where there is no document. */
type FoundRow = { readonly has_tenant: boolean } & (StoredRow | { readonly revision: null });

type InTable = 'read' | 'readToWrite' | 'saveWithHistory' | 'remove';

/** The same for documents kept in a table of their own, one row each. */
export function inTable<Address extends TenantAddress, Document>(
  entity: EntitySchema<DocumentRow>,
  names: KindNames<Address>,
): Pick<DocumentKind<Address, Document>, OfTenant> &
  Pick<Required<DocumentKind<Address, Document>>, InTable> {
  const { tableName } = entity.options;
  const { resourceId } = names;
  const reading: Statement = {
    name: `strata_read_${tableName}`,
    text: `SELECT document, revision, updated_by, updated_at FROM tenant_config.${tableName} WHERE tenant_id = $1 AND id = $2`,
  };
  const readingToWrite: Statement = {
    name: `strata_read_to_write_${tableName}`,
    text: `SELECT t.id IS NOT NULL AS has_tenant, d.document, d.revision, d.updated_by, d.updated_at
     FROM (SELECT $1::uuid AS tenant_id) asked
     LEFT JOIN tenant_config.tenants t ON t.id = asked.tenant_id AND t.erasing_since IS NULL
     LEFT JOIN tenant_config.${tableName} d ON d.tenant_id = asked.tenant_id AND d.id = $2`,
  };
  // The row is made of what its entry in the history has.
  const saving: Statement = {
    name: `strata_save_${tableName}`,
    text: `WITH entry AS (${historyEntry.text})
     INSERT INTO tenant_config.${tableName} (tenant_id, id, document, revision, updated_by, updated_at)
     VALUES ($1, $4, $11, $2, $6, $7)
     ON CONFLICT (tenant_id, id) DO UPDATE SET (document, revision, updated_by, updated_at)
       = ROW (excluded.document, excluded.revision, excluded.updated_by, excluded.updated_at)`,
  };
  return {
    ...tenantDocument(names),
    async read(manager, address) {
      const values = [address.tenant_id, resourceId(address)];
      const [row] = await run<StoredRow>(manager, reading, values);
      return row ? storedFrom<Document>(row) : null;
    },
    async readToWrite(manager, address) {
      const values = [address.tenant_id, resourceId(address)];
      const [row] = await run<FoundRow>(manager, readingToWrite, values);
      return {
        current: row!.revision === null ? null : storedFrom<Document>(row!),
        missingOwner: row!.has_tenant ? undefined : noSuchTenant(),
      };
    },
    async saveWithHistory(manager, address, record, request) {
      await run(manager, saving, historyValues(historyNameOf(names, address), record, request));
    },
    async remove(manager, address) {
      await manager.delete(entity, { tenant_id: address.tenant_id, id: resourceId(address) });
    },
  };
}
