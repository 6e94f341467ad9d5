/**
 * RATE_LIMIT_PER_MINUTE: how many requests one client address may make in a minute. The fast path
 * and Fastify count in one place and answer alike, so that it makes no difference which of them
 * answers. A reload changes the limit while the gateway runs.
 */
import proxyAddr from '@fastify/proxy-addr';
import type { FastifyInstance } from 'fastify';
import ipaddr from 'ipaddr.js';
import { LRUCache } from 'lru-cache';
import type { IncomingMessage } from 'node:http';
import { StrataError } from '../../shared/errors.ts';
import type { LiveSettings } from '../../shared/settings/live-settings.ts';
import { withoutPort, type Trust } from './client-address.ts';
import type { RequestCounts } from './request-counts.ts';

/** How an address stands to the limit with one of its requests. */
export interface Standing {
  readonly limit: number;
  readonly remaining: number;
  /** Until all of them are back. */
  readonly resetSeconds: number;
  readonly isOver: boolean;
}

export interface RateLimit {
  /** Whether there is a limit now. */
  readonly isSet: () => boolean;
  /**
   * Counts the request; each must be counted once. `then` is called at once, or in a moment where
   * Redis counts; it must not throw.
   */
  readonly count: (request: IncomingMessage, then: (standing: Standing) => void) => void;
}

export const remainingHeader = 'x-ratelimit-remaining';
export const resetHeader = 'x-ratelimit-reset';

/** Of every answer, whatever it is. */
export const standingHeaders = ({ limit, remaining, resetSeconds }: Standing) => ({
  'x-ratelimit-limit': limit,
  [remainingHeader]: remaining,
  [resetHeader]: resetSeconds,
});

export const tooManyRequests = ({ resetSeconds }: Standing): StrataError =>
  new StrataError('rate_limited', undefined, {
    headers: { 'retry-after': String(resetSeconds) },
  });

export function createRateLimit(
  settings: LiveSettings,
  counts: RequestCounts,
  trust: Trust,
): RateLimit {
  const addressOf = createAddressOf(trust);
  const limitNow = (): number => settings.current.rate_limit_per_minute;
  return {
    isSet: () => limitNow() > 0,
    count(request, then) {
      const limit = limitNow();
      counts.add(addressOf(request), limit, (count, leftMs) =>
        then({
          limit,
          remaining: Math.max(0, limit - count),
          resetSeconds: Math.ceil(leftMs / 1000),
          isOver: count > limit,
        }),
      );
    },
  };
}

/**
 * Counts what Fastify answers, ahead of the routes' own hooks, so that bad credentials count too.
 */
export function limitRate(app: FastifyInstance, rateLimit: RateLimit): void {
  app.addHook('onRequest', ({ raw }, reply, done) => {
    if (!rateLimit.isSet()) {
      done();
      return;
    }
    rateLimit.count(raw, (standing) => {
      reply.headers(standingHeaders(standing));
      done(standing.isOver ? tooManyRequests(standing) : undefined);
    });
  });
}

/** Bounds what is remembered of addresses, whose headers clients choose. */
const maxBytes = 1024 * 1024;
const addressBytes = 200;

/**
 * What a request is counted under. Finding it costs microseconds, so it is remembered for what the
 * connection and the proxy say.
 */
function createAddressOf(trust: Trust): (request: IncomingMessage) => string {
  const known = new LRUCache<string, string>({
    maxSize: maxBytes,
    sizeCalculation: (_address, said) => addressBytes + said.length,
  });
  return (request) => {
    const peer = request.socket.remoteAddress;
    // The connection has ended, and nobody hears the answer.
    if (peer === undefined) return '';
    const forwarded = request.headers['x-forwarded-for'];
    const said = forwarded === undefined ? peer : `${peer} ${String(forwarded)}`;
    const remembered = known.get(said);
    if (remembered !== undefined) return remembered;
    const address = holderOf(withoutPort(proxyAddr(request, trust)));
    known.set(said, address);
    return address;
  };
}

/** A proxy may hand on what a client claims to be, which is as long as a header may be. */
const longestName = 64;

/**
 * What one client is sure to have to itself: an address of IPv4, or /64 of IPv6. A text that is no
 * address stands for itself.
 */
function holderOf(address: string): string {
  if (!ipaddr.isValid(address)) return address.slice(0, longestName);
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  const network = parsed.toByteArray().fill(0, 8);
  return ipaddr.fromByteArray(network).toString();
}
