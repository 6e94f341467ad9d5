/** Actions on the platform's event_destinations. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { documentActions } from '../../../shared/documents/document.ts';
import { openDestinations } from '../../../shared/documents/event-destinations-document.ts';
import { platformChain } from '../../../shared/security/audit-chain.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { eventDestinationsKind } from '../documents/event-destinations.ts';
import { EventDestinationsEntity } from '../schema.ts';

export function eventDestinationActions(db: DataSource, settings: () => Settings) {
  const destinations = documentActions(db, eventDestinationsKind(settings));
  return {
    'global-config.event-destinations.get': destinations.get,
    'global-config.event-destinations.put': destinations.put,
    'global-config.event-destinations.patch': destinations.patch,
    'global-config.event-destinations.delete': destinations.delete,

    /** With their secrets decrypted; without destinations where there is no such document. */
    async 'global-config.event-destinations.open'() {
      const [row] = await db.manager.find(EventDestinationsEntity);
      if (!row) return { destinations: {}, revision: 0 };
      return {
        destinations: openDestinations(row.document, platformChain, settings()),
        revision: Number(row.revision),
      };
    },
  } satisfies Handlers;
}
