/** How long somebody waits after failed attempts, and whose failures count together. */
import ipaddr from 'ipaddr.js';
import { createHash } from 'node:crypto';

/** The first wait follows this many failures. */
const failuresToFirstWait = 10;
const firstWaitMs = 30_000;
const longestWaitMs = 15 * 60_000;
/** Failures are forgotten this long after the last one. */
export const memoryMs = 24 * 3_600_000;

/** The wait after the nth failure, in milliseconds: none, then `firstWaitMs`, doubling up to `longestWaitMs`. */
function waitOf(failures: number): number {
  if (failures < failuresToFirstWait) return 0;
  const doublings = failures - failuresToFirstWait;
  return Math.min(longestWaitMs, firstWaitMs * 2 ** doublings);
}

const failuresToLongestWait =
  failuresToFirstWait + Math.ceil(Math.log2(longestWaitMs / firstWaitMs));

/**
 * The wait after the first failure, after the second, and so on; the last one holds for all that follow. A table, so that the
 * count in memory and the count in Redis look the same numbers up instead of each stating the formula.
 */
export const waitsMs: readonly number[] = Array.from(
  { length: failuresToLongestWait },
  (_wait, index) => waitOf(index + 1),
);

/** The wait after the nth failure, in milliseconds. */
export const waitAfter = (failures: number): number =>
  waitsMs[Math.min(failures, waitsMs.length) - 1] ?? 0;

const networkBits = { ipv4: 24, ipv6: 56 } as const;

/** The network that one attacker is likely to hold: /24 of IPv4, /56 of IPv6. Calls from the bus name no address and are one network. */
export function networkOf(ip: string | undefined): string {
  if (ip === undefined || !ipaddr.isValid(ip)) return 'bus';
  const address = ipaddr.process(ip);
  const bits = networkBits[address.kind()];
  const bytes = address.toByteArray().slice(0, bits / 8);
  return `${Buffer.from(bytes).toString('hex')}/${bits}`;
}

/**
 * What failures are counted under: a purpose, who is asked for and from which network. Hashed, so that Redis holds no addresses
 * of people.
 */
export function throttleKey(purpose: string, identifier: string, ip: string | undefined): string {
  const digest = createHash('sha256')
    .update(`${networkOf(ip)} ${identifier}`)
    .digest('base64url');
  return `${purpose}:${digest}`;
}
