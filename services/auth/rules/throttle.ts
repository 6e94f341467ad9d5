import ipaddr from 'ipaddr.js';
import { createHash } from 'node:crypto';

/** Failures that cost nothing, the wait after the last of them, and the longest wait. The waits between double. */
export const freeFailures = 10;
export const firstWaitMs = 30_000;
export const longestWaitMs = 15 * 60_000;
/** Failures are forgotten this long after the last one. */
export const memoryMs = 24 * 3_600_000;

/** How long to wait after the nth failure, in milliseconds. */
export const waitAfter = (failures: number): number =>
  failures < freeFailures
    ? 0
    : Math.min(longestWaitMs, firstWaitMs * 2 ** Math.min(failures - freeFailures, 20));

/** What one attacker is likely to hold: /24 of IPv4, /56 of IPv6. Calls from the bus, which name no address, are one network. */
export function networkOf(ip: string | undefined): string {
  if (ip === undefined || !ipaddr.isValid(ip)) return 'bus';
  const address = ipaddr.process(ip);
  const bits = address.kind() === 'ipv4' ? 24 : 56;
  const bytes = address.toByteArray().slice(0, bits / 8);
  return `${Buffer.from(bytes).toString('hex')}/${bits}`;
}

/** Hashed, so that Redis holds no addresses of people. */
export const throttleKey = (purpose: string, identifier: string, ip: string | undefined): string =>
  `${purpose}:${createHash('sha256')
    .update(`${networkOf(ip)} ${identifier}`)
    .digest('base64url')}`;
