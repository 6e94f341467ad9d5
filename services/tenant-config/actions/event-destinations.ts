/** The event_destinations as the audit uses them: with their secrets open. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { openDestinations } from '../../../shared/documents/event-destinations-document.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { EventDestinationsEntity } from '../schema.ts';

export const eventDestinationActions = (db: DataSource, settings: () => Settings) =>
  ({
    /** Without destinations where the tenant has no such document, or is gone. */
    async 'tenant-config.event-destinations.open'({ tenant_id: tenantId }) {
      const row = await db.manager.findOneBy(EventDestinationsEntity, { tenant_id: tenantId });
      if (!row) return { destinations: {}, revision: 0 };
      return {
        destinations: openDestinations(row.document, tenantId, settings),
        revision: Number(row.revision),
      };
    },
  }) satisfies Handlers;
