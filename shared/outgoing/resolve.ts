import { Resolver } from 'node:dns/promises';
import { lookup, type LookupAddress } from 'node:dns';
import { promisify } from 'node:util';

/** Every address of a name, none where it has none or nobody answers. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>;

/**
 * Asks DNS without a thread: the system's own lookup holds one of libuv's four while a tenant's name server is silent, and hashing
 * and files wait for them. Names without a dot are nobody's to serve but the system's (localhost, containers beside this one).
 */
export function createResolve(servers?: readonly string[]): Resolve {
  const dns = new Resolver({ timeout: 2000, tries: 2 });
  if (servers) dns.setServers(servers);
  return async (hostname) => {
    if (!hostname.includes('.')) return promisify(lookup)(hostname, { all: true }).catch(() => []);
    const [four, six] = await Promise.all([
      dns.resolve4(hostname).catch(() => []),
      dns.resolve6(hostname).catch(() => []),
    ]);
    return [
      ...four.map((address) => ({ address, family: 4 })),
      ...six.map((address) => ({ address, family: 6 })),
    ];
  };
}
