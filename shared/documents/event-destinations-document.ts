/** The rules of event_destinations, a tenant's and the platform's, and how their secrets are kept. */
import { EventDestinations, mostDestinations } from '../contracts/event-destinations.ts';
import { createGuard } from '../outgoing/guard.ts';
import { secretsIn } from '../security/document-secrets.ts';
import type { Settings } from '../settings/settings.ts';
import {
  refusedAddresses,
  withAddressProblems,
  type RefusedAddresses,
} from './called-addresses.ts';
import type { DocumentKind } from './document-kind.ts';
import { endpointProblems } from './endpoint-problems.ts';

export type { RefusedAddresses } from './called-addresses.ts';

const secretsOf = (settings: () => Settings) =>
  secretsIn<EventDestinations>('event_destinations', EventDestinations, settings);

type Rules<Address> = Pick<
  DocumentKind<Address, EventDestinations, RefusedAddresses>,
  'schema' | 'prepare' | 'check' | 'seal' | 'requireOpen'
> & { readonly complete: (draft: EventDestinations) => EventDestinations };

export function destinationRules<Address>(
  settings: () => Settings,
  ownerOf: (address: Address) => string,
): Rules<Address> {
  const guard = createGuard(settings);
  const secrets = secretsOf(settings);
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
    seal: (document, address, current) => secrets.seal(document, ownerOf(address), current),
    requireOpen: (document, address) => secrets.requireOpen(document, ownerOf(address)),
  };
}

export const openDestinations = (
  document: unknown,
  owner: string,
  settings: () => Settings,
): EventDestinations => secretsOf(settings).open(document as EventDestinations, owner);
