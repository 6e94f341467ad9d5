/**
 * Which addresses a tenant may have Strata call, against server-side request forgery: public
 * unicast, and what is inside WEBHOOK_ALLOWED_NETWORKS. IPv6 that embeds or translates IPv4 is not
 * public.
 */
import type { LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { callbackify } from 'node:util';
import ipaddr from 'ipaddr.js';
import type { Settings } from '../settings/settings.ts';
import { OutgoingError } from './outgoing-error.ts';
import { createResolve, type Resolve } from './resolve.ts';

export type GuardSettings = Pick<Settings, 'webhook_allow_http' | 'webhook_allowed_networks'>;

/** Everything here refuses by an OutgoingError. */
export type Guard = ReturnType<typeof createGuard>;

const resolveWaitMs = 2000;

export function createGuard(settings: () => GuardSettings, resolve: Resolve = createResolve()) {
  function isAllowed(address: string): boolean {
    if (!ipaddr.isValid(address)) return false;
    const parsed = ipaddr.parse(address);
    const isInside = (network: string): boolean => {
      const [range, bits] = ipaddr.parseCIDR(network);
      return range.kind() === parsed.kind() && parsed.match(range, bits);
    };
    return isPublic(parsed) || settings().webhook_allowed_networks.some(isInside);
  }

  /** The URL, unless its form or a literal address in it is refused. Asks no resolver. */
  function parse(text: string): URL {
    const url = URL.parse(text);
    if (!url) throw new OutgoingError('url_refused', 'is not a URL');
    if (url.protocol !== 'https:' && url.protocol !== 'http:')
      throw new OutgoingError('url_refused', 'must be https');
    if (url.protocol === 'http:' && !settings().webhook_allow_http)
      throw new OutgoingError('url_refused', 'must be https (WEBHOOK_ALLOW_HTTP allows http)');
    if (url.username || url.password)
      throw new OutgoingError('url_refused', 'must not carry a user name or password');
    const literal = literalAddress(url);
    if (literal !== undefined && !isAllowed(literal)) throw notPublic();
    return url;
  }

  /**
   * All addresses of a name, each of them allowed: one that is not could be the one that is
   * connected to.
   */
  async function allowedAddresses(
    hostname: string,
  ): Promise<readonly [LookupAddress, ...LookupAddress[]]> {
    const [first, ...others] = await resolve(hostname);
    if (first === undefined)
      throw new OutgoingError('name_not_resolved', 'has a name that does not resolve');
    const found = [first, ...others] as const;
    if (!found.every(({ address }) => isAllowed(address))) throw notPublic();
    return found;
  }

  /**
   * For the socket, so that the address that was checked is the one that is connected to. Node asks
   * it for names only.
   */
  const lookup: LookupFunction = (hostname, options, callback) => {
    callbackify(allowedAddresses)(hostname, (error, found) => {
      if (error) return callback(error, '', 0);
      if (options.all) return callback(null, [...found]);
      const [{ address, family }] = found;
      return callback(null, address, family);
    });
  };

  return {
    parse,
    lookup,

    /**
     * For whoever saves or tests an address: also refuses what its name stands for now. A name that
     * does not resolve, or not within 2 s, passes: it may resolve by the time it is called.
     */
    async checkUrl(text: string): Promise<URL> {
      const url = parse(text);
      if (literalAddress(url) !== undefined) return url;
      const checked = allowedAddresses(url.hostname).catch((error: unknown) => {
        const isUnknown = error instanceof OutgoingError && error.reason === 'name_not_resolved';
        if (!isUnknown) throw error;
      });
      await Promise.race([checked, delay(resolveWaitMs, undefined, { ref: false })]);
      return url;
    },
  };
}

/** The address that a URL names instead of a host. */
function literalAddress({ hostname }: URL): string | undefined {
  const address = hostname.replace(/^\[|\]$/g, '');
  return isIP(address) ? address : undefined;
}

const notPublic = (): OutgoingError =>
  new OutgoingError(
    'address_refused',
    'is not a public address (WEBHOOK_ALLOWED_NETWORKS opens others)',
  );

/**
 * Global unicast IPv6 is 2000::/3 (RFC 4291). Everything outside it, such as ::/96 and
 * 64:ff9b::/96, is not public.
 */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');

/** Azure's WireServer: virtual machines reach their host by this address of the public range. */
const wireServer = '168.63.129.16';

function isPublic(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  if (address.range() !== 'unicast' || address.toString() === wireServer) return false;
  return address instanceof ipaddr.IPv6 ? address.match(globalUnicast) : true;
}
