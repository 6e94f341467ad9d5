/**
 * What all of a tenant's documents have in common: the tenant's revisions, its
 * ConfigurationHistory, and a table of one shape.
 */
import type { EntitySchema } from 'typeorm';
import type { ConfigType } from '../../../shared/contracts/history.ts';
import type { TenantRole } from '../../../shared/contracts/roles.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import { allEnded } from '../../../shared/database/all-ended.ts';
import { run, type Statement } from '../../../shared/database/prepared-statements.ts';
import {
  singleNames,
  storedFrom,
  type DocumentKind,
  type SingleName,
} from '../../../shared/documents/document-kind.ts';
import type { DocumentRow } from '../schema.ts';
import { historyEntry, historyValues } from '../stores/history.ts';
import { actsIn, rolesInTenant } from '../stores/members.ts';
import { noSuchTenant } from '../stores/tenants.ts';

/** What a kind is called: in audit events, in the history, and one document of it there. */
export interface KindNames<Address> {
  readonly auditName: string;
  readonly configType: ConfigType;
  readonly actions: string;
  /** The tenant's id by default. */
  readonly resourceId?: (address: Address) => string;
}

const tenantOf = ({ tenant_id: id }: TenantAddress): string => id;

type StoredRow = Pick<DocumentRow, 'document' | 'revision' | 'updated_by' | 'updated_at'>;
/** The other columns are null where there is no document. */
type FoundRow = {
  readonly has_tenant: boolean;
  /** Of the writer, if there is one. */
  readonly roles: readonly TenantRole[] | null;
} & (StoredRow | { readonly revision: null });

type InTable =
  'auditName' | 'configType' | 'actions' | 'tenantId' | 'resourceId' | 'load' | 'store';

/** For documents kept in a table of their own, one row each. */
export function inTable<Address extends TenantAddress, Document>(
  entity: EntitySchema<DocumentRow>,
  { auditName, configType, actions, resourceId = tenantOf }: KindNames<Address>,
): Pick<DocumentKind<Address, Document>, InTable> {
  const { tableName } = entity.options;
  const loading: Statement = {
    name: `strata_load_${tableName}`,
    text: `SELECT t.id IS NOT NULL AS has_tenant, d.document, d.revision, d.updated_by, d.updated_at,
       ${rolesInTenant('$3')} AS roles
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
    auditName,
    configType,
    actions,
    tenantId: tenantOf,
    resourceId,
    async load(manager, address, writer) {
      const isMember = actsIn(address.tenant_id, writer);
      const values = [address.tenant_id, resourceId(address), isMember ? writer.id : null];
      const [row] = await run<FoundRow>(manager, loading, values);
      return {
        ...(isMember && { roles: row!.roles ?? [] }),
        current: row!.revision === null ? null : storedFrom<Document>(row!),
        missingOwner: row!.has_tenant ? undefined : noSuchTenant(),
      };
    },
    async store(manager, address, record, request) {
      const name = { tenantId: address.tenant_id, configType, resourceId: resourceId(address) };
      const entry = historyValues(name, record, request);
      if (record.after !== null) {
        await run(manager, saving, entry);
        return;
      }
      const removed = { tenant_id: address.tenant_id, id: resourceId(address) };
      await allEnded([run(manager, historyEntry, entry), manager.delete(entity, removed)]);
    },
  };
}

/** The same of a document that a tenant has one of. */
export const single = <Document>(entity: EntitySchema<DocumentRow>, name: SingleName) => ({
  ...inTable<TenantAddress, Document>(entity, singleNames('tenant-config', name)),
  patchCreates: true as const,
  complete: (draft: Document) => draft,
});
