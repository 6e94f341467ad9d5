/** A tenant's event_destinations, one document, its secrets encrypted. */
import type { EventDestinations } from '../../../shared/contracts/event-destinations.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import {
  destinationRules,
  type RefusedAddresses,
} from '../../../shared/documents/event-destinations-document.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { EventDestinationsEntity } from '../schema.ts';
import { single } from './tenant-document.ts';

export const eventDestinationsKind = (
  settings: () => Settings,
): DocumentKind<TenantAddress, EventDestinations, RefusedAddresses> => ({
  ...single<EventDestinations>(EventDestinationsEntity, 'event_destinations'),
  ...destinationRules(settings, ({ tenant_id }: TenantAddress) => tenant_id),
});
