/** How long somebody waits after failed attempts, and whose failures count together. */
import { networkIn } from '../../../../shared/security/networks.ts';
import { hash } from 'node:crypto';

/** The first wait follows this many failures of an account. */
const accountFailures = 10;
/**
 * The first wait follows this many failures of a network within `networkWindowMs`, whatever
 * accounts they are of.
 */
const networkFailures = 30;
const networkWindowMs = 10 * 60_000;
const firstWaitMs = 30_000;
const longestWaitMs = 15 * 60_000;
const doublingsToLongestWait = Math.ceil(Math.log2(longestWaitMs / firstWaitMs));
/** Failures of an account are forgotten this long after the last one. */
export const memoryMs = 24 * 3_600_000;

/**
 * The wait after the nth failure, in milliseconds: none before the `first`, then `firstWaitMs`,
 * doubling up to `longestWaitMs`.
 */
function waitOf(failures: number, first: number): number {
  if (failures < first) return 0;
  const doublings = failures - first;
  return Math.min(longestWaitMs, firstWaitMs * 2 ** doublings);
}

const failuresToLongestWait = accountFailures + doublingsToLongestWait;

/**
 * The wait after the first failure, after the second, and so on; the last one holds for all that
 * follow. A table, so that the count in memory and the count in Redis look the same numbers up
 * instead of each stating the formula.
 */
export const waitsMs: readonly number[] = Array.from(
  { length: failuresToLongestWait },
  (_wait, index) => waitOf(index + 1, accountFailures),
);

/** The wait after the nth failure, in milliseconds. */
export const waitAfter = (failures: number): number =>
  waitsMs[Math.min(failures, waitsMs.length) - 1] ?? 0;

/** As many failures of a network as its wait depends on; older ones need not be remembered. */
export const networkFailuresRemembered = networkFailures + doublingsToLongestWait;
/** For so long the failures of a network can still matter. */
export const networkMemoryMs = networkWindowMs + longestWaitMs;

/**
 * How much longer a network waits, in milliseconds, by when its last failures were (newest first,
 * on the same clock as `now`). Those of the last ten minutes count, so that an office in which
 * somebody mistypes now and then never waits. Successes take nothing off, else an attacker with an
 * account of their own would guess on and on.
 */
export function networkWaitMs(failedAt: readonly number[], now: number): number {
  const [latest] = failedAt;
  if (latest === undefined) return 0;
  const failures = failedAt.filter((moment) => moment > latest - networkWindowMs).length;
  return Math.max(0, latest + waitOf(failures, networkFailures) - now);
}

/**
 * The network that one attacker is likely to hold: /24 of IPv4, /56 of IPv6, in the notation of
 * RFC 4632. Calls from the bus name no address and are one network.
 */
export const networkOf = (ip: string | undefined): string =>
  networkIn(ip, { ipv4: 24, ipv6: 56 }) ?? 'bus';

/**
 * What failures are counted under: a purpose, who is asked for and from which network. Hashed, so
 * that Redis holds no addresses of people.
 */
export function throttleKey(purpose: string, identifier: string, ip: string | undefined): string {
  const digest = hash('sha256', `${networkOf(ip)} ${identifier}`, 'base64url');
  return `${purpose}:${digest}`;
}

/** What is counted of a network under one purpose, over all accounts. Hashed like `throttleKey`. */
export const networkKey = (purpose: string, network: string): string =>
  `${purpose}:${hash('sha256', network, 'base64url')}`;
