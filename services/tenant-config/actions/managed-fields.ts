/** Which fields of a tenant's documents folders own. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { managedDocuments } from '../../../shared/documents/managed-fields.ts';

export const managedFieldActions = (db: DataSource) =>
  ({
    'tenant-config.managed-fields.list': ({ tenant_id: id, ...asked }) =>
      managedDocuments(db.manager, tenantScope(id), asked),
  }) satisfies Handlers;
