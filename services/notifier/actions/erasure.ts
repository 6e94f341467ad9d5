/**
 * Erasing what the notifier has of a tenant. Notices that have not been sent are not sent any more.
 */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { eraseChunkOfTenant } from '../stores/erasure.ts';

export const erasureActions = (db: DataSource) =>
  ({
    'notifier.tenants.erase': async ({ tenant_id: tenantId }) => ({
      done: await db.transaction((manager) => eraseChunkOfTenant(manager, tenantId)),
    }),
  }) satisfies Handlers;
