/**
 * Tickets of flag streams. A provider of OpenFeature opens a stream by its address alone, without a
 * header (OFREP, ADR 0008): the ticket in that address is the credential of whoever evaluated the
 * flags, sealed. What opens it is this stream, by the rights that the credential has then.
 *
 * | Danger                                  | Bounded by                                                    |
 * |-----------------------------------------|---------------------------------------------------------------|
 * | the address is logged, or passed on     | the stream says that something changed, and no value; nothing else takes a ticket |
 * | the credential is read from it          | AES-256-GCM under a key of its own                            |
 * | it opens the stream of another context  | it is bound to tenant and context                             |
 * | it outlives the credential              | who calls is found by the credential each time                |
 * | it is kept                              | good for an hour at most, to open and to come back            |
 */
import { LRUCache } from 'lru-cache';
import type { IncomingHttpHeaders } from 'node:http';
import { upTo } from '../../shared/concurrency/growing-cache.ts';
import type { Address } from '../../shared/contracts/effective-config.ts';
import { createVault, type Vault } from '../../shared/security/vault.ts';
import type { LiveSettings } from '../../shared/settings/live-settings.ts';
import type { Settings } from '../../shared/settings/settings.ts';

/** In milliseconds. A ticket is the same within a window, and good until the end of the next. */
export const windowMs = 1_800_000;

const credentialHeaders = ['x-api-key', 'authorization'] as const;
type Content = readonly [
  header: (typeof credentialHeaders)[number],
  credential: string,
  expiresAt: number,
];

export interface TicketFor {
  readonly tenant_id: string;
  readonly address: Address;
}

export type Tickets = ReturnType<typeof createTickets>;

const bindingOf = ({ tenant_id: tenantId, address }: TicketFor): string => {
  const {
    agent_type: agent = null,
    service_id: service = null,
    service_type: type = null,
  } = address;
  return JSON.stringify([tenantId, agent, service, type]);
};

export const windowOf = (now: number): number => Math.floor(now / windowMs);

export function createTickets(settings: LiveSettings) {
  const issued = new LRUCache<string, string>(upTo(1000));
  let sealedWith: Settings | undefined;
  let vault: Vault;

  /** Made again when a reload has replaced the settings. */
  function current(): Vault {
    if (sealedWith !== settings.current) {
      sealedWith = settings.current;
      vault = createVault(sealedWith, 'stream ticket');
      issued.clear();
    }
    return vault;
  }

  return {
    /** Undefined where the headers bring no credential. */
    issue(headers: IncomingHttpHeaders, of: TicketFor, now: number): string | undefined {
      const header = credentialHeaders.find((each) => headers[each] !== undefined);
      if (header === undefined) return undefined;
      const expiresAt = (windowOf(now) + 2) * windowMs;
      const content: Content = [header, String(headers[header]), expiresAt];
      const plain = JSON.stringify(content);
      const binding = bindingOf(of);
      const sealing = current();
      const name = `${binding} ${plain}`;
      const ticket = issued.get(name) ?? sealing.seal(plain, binding);
      issued.set(name, ticket);
      return ticket;
    },

    /** The header that it stands for; undefined where it is no ticket for this, or is none any more. */
    open(ticket: string, of: TicketFor, now: number): IncomingHttpHeaders | undefined {
      const plain = opened(current(), ticket, bindingOf(of));
      if (plain === undefined) return undefined;
      // It opened, so `issue` made it.
      const [header, credential, expiresAt] = JSON.parse(plain) as Content;
      return expiresAt > now ? { [header]: credential } : undefined;
    },
  };
}

function opened(vault: Vault, ticket: string, binding: string): string | undefined {
  try {
    return vault.open(ticket, binding);
  } catch {
    return undefined;
  }
}
