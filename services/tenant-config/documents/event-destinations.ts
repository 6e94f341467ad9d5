/** A tenant's event_destinations, one document, its secrets encrypted. */
import {
  destinationsAuditName,
  EventDestinations,
  mostDestinations,
} from '../../../shared/contracts/event-destinations.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { createGuard } from '../../../shared/outgoing/guard.ts';
import { sealSecrets } from '../../../shared/security/document-secrets.ts';
import { createVault } from '../../../shared/security/vault.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import {
  refusedAddresses,
  withAddressProblems,
  type RefusedAddresses,
} from '../rules/called-addresses.ts';
import { endpointProblems } from '../rules/notification-config.ts';
import { EventDestinationsEntity } from '../schema.ts';
import { inTable } from './tenant-document.ts';

/** The key that the secrets are encrypted under. */
export const destinationVault = (settings: Settings) => createVault(settings, 'event_destinations');
/** What such a secret is bound to: it opens for no other tenant. */
export const destinationContext = (tenantId: string): string => `event_destinations ${tenantId}`;

export function eventDestinationsKind(
  settings: () => Settings,
): DocumentKind<TenantAddress, EventDestinations, RefusedAddresses> {
  const guard = createGuard(settings);
  return {
    ...inTable(EventDestinationsEntity, {
      auditName: destinationsAuditName,
      configType: 'event_destinations_config',
      actions: 'tenant-config.event-destinations',
      resourceId: ({ tenant_id }: TenantAddress) => tenant_id,
    }),
    schema: EventDestinations,
    patchCreates: true,
    prepare: (_address, _request, body) =>
      refusedAddresses(EventDestinations, body, mostDestinations, guard),
    complete: (draft) => draft,
    check({ next, context }) {
      const problems = Object.entries(next).flatMap(([name, destination]) =>
        endpointProblems(destination, [name]),
      );
      return {
        refused: withAddressProblems(problems, EventDestinations, next, guard, context),
      };
    },
    seal: (document, { tenant_id }, current) =>
      sealSecrets(
        document,
        EventDestinations,
        destinationVault(settings()),
        destinationContext(tenant_id),
        current,
      ),
  };
}
