/** The platform's event_destinations as the audit uses them: with their secrets open. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { openDestinations } from '../../../shared/documents/event-destinations-document.ts';
import { platformChain } from '../../../shared/security/audit-chain.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { EventDestinationsEntity } from '../schema.ts';

export const eventDestinationActions = (db: DataSource, settings: () => Settings) =>
  ({
    /** Without destinations where there is no such document. */
    async 'global-config.event-destinations.open'() {
      const [row] = await db.manager.find(EventDestinationsEntity);
      if (!row) return { destinations: {}, revision: 0 };
      return {
        destinations: openDestinations(row.document, platformChain, settings),
        revision: Number(row.revision),
      };
    },
  }) satisfies Handlers;
