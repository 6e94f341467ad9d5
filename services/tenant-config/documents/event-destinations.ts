/** A tenant's event_destinations, one document, its secrets encrypted. */
import type { EventDestinations } from '../../../shared/contracts/event-destinations.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import {
  destinationNames,
  destinationRules,
  type RefusedAddresses,
} from '../../../shared/documents/event-destinations-document.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { EventDestinationsEntity } from '../schema.ts';
import { inTable } from './tenant-document.ts';

const tenantOf = ({ tenant_id }: TenantAddress): string => tenant_id;

export const eventDestinationsKind = (
  settings: () => Settings,
): DocumentKind<TenantAddress, EventDestinations, RefusedAddresses> => ({
  ...inTable(EventDestinationsEntity, {
    ...destinationNames,
    actions: 'tenant-config.event-destinations',
    resourceId: tenantOf,
  }),
  ...destinationRules(settings, tenantOf),
  patchCreates: true,
});
