/** What all of a tenant's documents have in common: the tenant's revisions, its ConfigurationHistory, and a table of one shape. */
import type { EntityManager, EntitySchema } from 'typeorm';
import type { ConfigType } from '../../../shared/contracts/history.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import { columnsOf } from '../../../shared/database/columns.ts';
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

/** Documents kept in a table of their own, one row each. */
export function inTable<Address extends TenantAddress, Document>(
  entity: EntitySchema<DocumentRow>,
  resourceId: (address: Address) => string,
): Pick<Required<DocumentKind<Address, Document>>, 'read' | 'save' | 'remove'> {
  const keyOf = (address: Address) => ({ tenant_id: address.tenant_id, id: resourceId(address) });
  return {
    async read(manager: EntityManager, address) {
      const row = await manager.findOneBy(entity, keyOf(address));
      return row && storedFrom<Document>(row);
    },
    async save(manager, address, stored) {
      const row = columnsOf<DocumentRow>({
        ...keyOf(address),
        document: stored.document,
        revision: stored.revision,
        updated_by: stored.updated_by,
        updated_at: new Date(stored.updated_at),
      });
      await manager.upsert(entity, row, ['tenant_id', 'id']);
    },
    async remove(manager, address) {
      await manager.delete(entity, keyOf(address));
    },
  };
}
