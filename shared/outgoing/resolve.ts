/** Names of hosts to addresses, for the guard. */
import { lookup, type LookupAddress } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { promisify } from 'node:util';

/** Every address of a name; none where it has none, or nobody answers. Never rejects. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>;

const lookupAll = promisify(lookup);

/**
 * Asks DNS directly, because the system's lookup blocks one of libuv's four threads while a
 * tenant's name server is silent, and hashing and files need them. Names without a dot (localhost,
 * containers beside this one) are known to the system alone. `servers` replace those of the system,
 * for tests.
 */
export function createResolve(servers?: readonly string[]): Resolve {
  const dns = new Resolver({ timeout: 2000, tries: 2 });
  if (servers) dns.setServers(servers);
  return async (hostname) => {
    if (!hostname.includes('.')) return lookupAll(hostname, { all: true }).catch(() => []);
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
