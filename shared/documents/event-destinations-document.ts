/** The rules of event_destinations, a tenant's and the platform's, and how their secrets are kept. */
import { EventDestinations, mostDestinations } from '../contracts/event-destinations.ts';
import { createGuard } from '../outgoing/guard.ts';
import { openSecrets, requireOpenSecrets, sealSecrets } from '../security/document-secrets.ts';
import { createVault, type Vault } from '../security/vault.ts';
import type { Settings } from '../settings/settings.ts';
import {
  refusedAddresses,
  withAddressProblems,
  type RefusedAddresses,
} from './called-addresses.ts';
import type { DocumentKind } from './document-kind.ts';
import { endpointProblems } from './endpoint-problems.ts';

export type { RefusedAddresses } from './called-addresses.ts';

/** The key that the secrets are encrypted under. */
const vaultOf = (settings: Settings): Vault => createVault(settings, 'event_destinations');

/** What such a secret is bound to: it opens for no other owner, who is a tenant or the platform. */
const contextOf = (owner: string): string => `event_destinations ${owner}`;

type Rules<Address> = Pick<
  DocumentKind<Address, EventDestinations, RefusedAddresses>,
  'schema' | 'prepare' | 'check' | 'seal' | 'requireOpen'
> & { readonly complete: (draft: EventDestinations) => EventDestinations };

export function destinationRules<Address>(
  settings: () => Settings,
  ownerOf: (address: Address) => string,
): Rules<Address> {
  const guard = createGuard(settings);
  return {
    schema: EventDestinations,
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
    seal: (document, address, current) =>
      sealSecrets(
        document,
        EventDestinations,
        vaultOf(settings()),
        contextOf(ownerOf(address)),
        current,
      ),
    requireOpen: (document, address) =>
      requireOpenSecrets(
        document,
        EventDestinations,
        vaultOf(settings()),
        contextOf(ownerOf(address)),
      ),
  };
}

export const openDestinations = (
  document: unknown,
  owner: string,
  settings: Settings,
): EventDestinations =>
  openSecrets(
    document as EventDestinations,
    EventDestinations,
    vaultOf(settings),
    contextOf(owner),
  );
