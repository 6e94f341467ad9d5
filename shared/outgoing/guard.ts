/**
 * Which addresses Strata may be sent to by a tenant (server-side request forgery). What is reached is public unicast, or inside
 * `webhook_allowed_networks`; IPv6 that embeds or translates IPv4 is not public.
 */
import type { LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { callbackify } from 'node:util';
import ipaddr from 'ipaddr.js';
import type { Settings } from '../settings.ts';
import { OutgoingError } from './outgoing-error.ts';
import { createResolve, type Resolve } from './resolve.ts';

export type GuardSettings = Pick<Settings, 'webhook_allow_http' | 'webhook_allowed_networks'>;

export interface Guard {
  /** The URL, unless its form or a literal address refuses it. Asks no resolver. */
  readonly parse: (url: string) => URL;
  /** For whoever saves or tests an address: also refuses what its name stands for now. An unknown name passes unless `mustResolve`. */
  readonly checkUrl: (url: string, options?: { mustResolve?: boolean }) => Promise<URL>;
  /** For the socket, so that what was checked is what is connected to. Node asks it for names only: literals are for `parse`. */
  readonly lookup: LookupFunction;
}

/** How long saving waits for a resolver; a name that takes longer counts as unknown. */
const saveWaitMs = 2000;

export function createGuard(
  settings: () => GuardSettings,
  resolve: Resolve = createResolve(),
): Guard {
  const admits = (address: string): boolean => {
    if (!ipaddr.isValid(address)) return false;
    const parsed = ipaddr.parse(address);
    const inside = (network: string): boolean => {
      const [range, bits] = ipaddr.parseCIDR(network);
      return range.kind() === parsed.kind() && parsed.match(range, bits);
    };
    return isPublic(parsed) || settings().webhook_allowed_networks.some(inside);
  };

  const parse = (text: string): URL => {
    const url = URL.parse(text);
    if (!url) throw new OutgoingError('url_refused', 'is not a URL');
    if (url.protocol !== 'https:' && url.protocol !== 'http:')
      throw new OutgoingError('url_refused', 'must be https');
    if (url.protocol === 'http:' && !settings().webhook_allow_http)
      throw new OutgoingError('url_refused', 'must be https (WEBHOOK_ALLOW_HTTP allows http)');
    if (url.username || url.password)
      throw new OutgoingError('url_refused', 'must not carry a user name or password');
    const literal = url.hostname.replace(/^\[|\]$/g, '');
    if (isIP(literal) && !admits(literal)) throw notPublic();
    return url;
  };

  const addressesOf = async (hostname: string): Promise<readonly LookupAddress[]> => {
    const found = await resolve(hostname);
    if (found.length === 0)
      throw new OutgoingError('name_not_resolved', 'has a name that does not resolve');
    if (!found.every(({ address }) => admits(address))) throw notPublic();
    return found;
  };

  return {
    parse,
    async checkUrl(text, { mustResolve = false } = {}) {
      const url = parse(text);
      if (isIP(url.hostname.replace(/^\[|\]$/g, ''))) return url;
      const patience = new Promise<never>((_resolve, reject) => {
        setTimeout(
          () =>
            reject(
              new OutgoingError('name_not_resolved', 'has a name that does not resolve in time'),
            ),
          saveWaitMs,
        ).unref();
      });
      await Promise.race([addressesOf(url.hostname), patience]).catch((error: OutgoingError) => {
        if (error.reason !== 'name_not_resolved' || mustResolve) throw error;
      });
      return url;
    },
    lookup(hostname, options, callback) {
      callbackify(addressesOf)(hostname, (error, found) => {
        if (error) callback(error, '', 0);
        else if (options.all) callback(null, [...found]);
        else callback(null, found[0]!.address, found[0]!.family);
      });
    },
  };
}

const notPublic = (): OutgoingError =>
  new OutgoingError(
    'address_refused',
    'is not a public address (WEBHOOK_ALLOWED_NETWORKS opens others)',
  );

/** Global unicast IPv6 is 2000::/3 (RFC 4291): all outside it, such as ::/96 and 64:ff9b::/96, is not public. */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');
const isPublic = (address: ipaddr.IPv4 | ipaddr.IPv6): boolean =>
  address.range() === 'unicast' &&
  (address.kind() === 'ipv4' || (address as ipaddr.IPv6).match(globalUnicast));
