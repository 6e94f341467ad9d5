/**
 * RATE_LIMIT_PER_MINUTE: how many requests one client address may make in a minute, which begins
 * with the first of them. The fast path and Fastify count in one place and answer alike, so that it
 * makes no difference which of them answers. A reload changes the limit while the gateway runs.
 */
import proxyAddr from '@fastify/proxy-addr';
import type { FastifyInstance } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { IncomingMessage } from 'node:http';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { StrataError } from '../../shared/errors.ts';
import { networkIn } from '../../shared/security/networks.ts';
import type { LiveSettings } from '../../shared/settings/live-settings.ts';
import { withoutPort, type Trust } from './client-address.ts';
import type { RedisClient } from '../../shared/concurrency/redis.ts';

/** How an address stands to the limit with one of its requests. */
export interface LimitState {
  readonly limit: number;
  readonly remaining: number;
  /** Until all of them are back. */
  readonly resetSeconds: number;
  readonly isOver: boolean;
}

export type RateLimit = ReturnType<typeof createRateLimit>;

/** Of every answer, whatever it is. */
export const limitHeaders = ({ limit, remaining, resetSeconds }: LimitState) => ({
  'x-ratelimit-limit': limit,
  'x-ratelimit-remaining': remaining,
  'x-ratelimit-reset': resetSeconds,
});

export const tooManyRequests = ({ resetSeconds }: LimitState): StrataError =>
  new StrataError('rate_limited', undefined, {
    headers: { 'retry-after': String(resetSeconds) },
  });

/** How many requests of an address are counted in its minute, and until that ends. */
interface Count {
  readonly points: number;
  readonly msBeforeNext: number;
}

const minute = { seconds: 60, ms: 60_000 };
/** Bounds the memory where somebody has very many addresses; the least recently seen go. */
const mostAddresses = 100_000;

/** How long all count in memory after Redis did not answer one of them. */
const pauseMs = 5000;

/**
 * Counts in Redis, so that all gateways count together. Undefined while Redis is away or does not
 * answer: after the connection's `commandTimeout`, of which one request at a time waits for it.
 */
function createSharedCounter(redis: RedisClient): (address: string) => Promise<Count | undefined> {
  // `points` is not used: the limit may change while requests are counted.
  const counter = new RateLimiterRedis({
    points: 1,
    duration: minute.seconds,
    storeClient: redis,
    keyPrefix: 'strata:requests',
    rejectIfRedisNotReady: true,
  });
  let pausedUntil: number | undefined;
  return async (address) => {
    const now = performance.now();
    if (pausedUntil !== undefined) {
      if (now < pausedUntil) return undefined;
      pausedUntil = now + pauseMs;
    }
    try {
      const { consumedPoints, msBeforeNext } = await counter.penalty(address);
      pausedUntil = undefined;
      return { points: consumedPoints, msBeforeNext };
    } catch {
      pausedUntil = performance.now() + pauseMs;
      return undefined;
    }
  };
}

/**
 * Counts in Redis, where there is one. What is over its limit is counted in memory until its minute
 * ends, and so is everything while Redis is away: each gateway then counts alone.
 */
export function createRateLimit(settings: LiveSettings, trust: Trust, redis?: RedisClient) {
  const addressOf = createAddressOf(trust);
  const countTogether = redis && createSharedCounter(redis);
  const counts = new LRUCache<string, number>({ max: mostAddresses, ttl: minute.ms });
  const limitNow = (): number => settings.current.rate_limit_per_minute;

  function countAlone(address: string): Count {
    const points = (counts.get(address) ?? 0) + 1;
    counts.set(address, points, { noUpdateTTL: true });
    // The cache's clock is up to a millisecond old, so that more than a minute may remain.
    return { points, msBeforeNext: Math.min(minute.ms, counts.getRemainingTTL(address)) };
  }

  async function countOf(address: string, limit: number): Promise<Count> {
    if ((counts.get(address) ?? 0) > limit) return countAlone(address);
    const together = await countTogether?.(address);
    if (!together) return countAlone(address);
    if (together.points > limit)
      // A ttl of 0 would keep it for ever.
      counts.set(address, together.points, { ttl: Math.max(1, together.msBeforeNext) });
    return together;
  }

  return {
    /** Whether there is a limit now. */
    isSet: (): boolean => limitNow() > 0,
    /** Counts the request, which must be counted once. Never rejects. */
    async count(request: IncomingMessage): Promise<LimitState> {
      const limit = limitNow();
      const { points, msBeforeNext } = await countOf(addressOf(request), limit);
      return {
        limit,
        remaining: Math.max(0, limit - points),
        resetSeconds: Math.ceil(msBeforeNext / 1000),
        isOver: points > limit,
      };
    },
  };
}

/**
 * Counts what Fastify answers, ahead of the routes' own hooks, so that bad credentials count too.
 */
export function limitRate(app: FastifyInstance, rateLimit: RateLimit): void {
  app.addHook('onRequest', async ({ raw }, reply) => {
    if (!rateLimit.isSet()) return;
    const limitState = await rateLimit.count(raw);
    reply.headers(limitHeaders(limitState));
    if (limitState.isOver) throw tooManyRequests(limitState);
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
const holderOf = (address: string): string =>
  networkIn(address, { ipv4: 32, ipv6: 64 })?.split('/')[0] ?? address.slice(0, longestName);
