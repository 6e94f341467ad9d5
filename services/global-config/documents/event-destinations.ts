/** The platform's event_destinations, one document, its secrets encrypted. */
import type { EventDestinations } from '../../../shared/contracts/event-destinations.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import {
  destinationRules,
  type RefusedAddresses,
} from '../../../shared/documents/event-destinations-document.ts';
import { platformChain } from '../../../shared/security/audit-chain.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { EventDestinationsEntity } from '../schema.ts';
import { singleDocument } from './platform-document.ts';

export const eventDestinationsKind = (
  settings: () => Settings,
): DocumentKind<object, EventDestinations, RefusedAddresses> => ({
  ...singleDocument<EventDestinations>(EventDestinationsEntity, 'event_destinations'),
  ...destinationRules<object>(settings, () => platformChain),
});
