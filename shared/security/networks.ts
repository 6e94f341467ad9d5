/** The network that an address is in. */
import ipaddr from 'ipaddr.js';

/**
 * In the notation of RFC 4632, such as `192.0.2.0/24`, with so many bits, whole bytes, as addresses
 * of its kind are given. Undefined for what is no address.
 */
export function networkIn(
  ip: string | undefined,
  widths: { readonly ipv4: number; readonly ipv6: number },
): string | undefined {
  if (ip === undefined || !ipaddr.isValid(ip)) return undefined;
  const address = ipaddr.process(ip);
  const bits = widths[address.kind()];
  const bytes = address.toByteArray().fill(0, bits / 8);
  return `${ipaddr.fromByteArray(bytes).toString()}/${bits}`;
}
