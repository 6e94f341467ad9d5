/** Fastify's plug-ins that every request passes: CORS and the rate limit. */
import cors from '@fastify/cors';
import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Redis } from 'ioredis';
import type { LiveSettings } from '../shared/live-settings.ts';
import { StrataError } from '../shared/errors.ts';

const corsOptions = {
  methods: ['GET', 'PUT', 'PATCH', 'POST', 'DELETE'],
  maxAge: 600,
  // OPTIONS without a preflight's headers goes to its route, which says what the path takes.
  strictPreflight: false,
  exposedHeaders: [
    'ETag',
    'Last-Modified',
    'X-Request-ID',
    'X-Updated-By',
    'X-Updated-By-Name',
    'X-Config-Revision',
    'X-Config-Stale',
    'X-Next-Cursor',
    'Retry-After',
  ],
};

/** Lets pages of CORS_ORIGINS call the gateway; `*` stands for all. With none, or none any more, the plug-in passes requests by. */
export async function allowOrigins(app: FastifyInstance, settings: LiveSettings): Promise<void> {
  await app.register(cors, {
    delegator: (_request, callback) => {
      const origins = settings.current.cors_origins;
      // Of a list with `*` in it the plug-in takes that.
      callback(null, { ...corsOptions, origin: origins.length === 0 ? false : [...origins] });
    },
  });
}

/**
 * Limits requests per client address and minute. A reload changes the limit while the gateway runs, so the plug-in is always there,
 * and a limit of 0 passes it by. `redis` shares the counts between gateways; while it is away nobody is limited.
 */
export async function limitRate(
  app: FastifyInstance,
  settings: LiveSettings,
  redis: Redis | undefined,
): Promise<void> {
  await app.register(rateLimit, {
    global: false,
    ...(redis ? { redis, skipOnError: true } : {}),
    max: () => settings.current.rate_limit_per_minute,
    timeWindow: 60_000,
    errorResponseBuilder: (_request, { ttl }) =>
      new StrataError('rate_limited', undefined, {
        headers: { 'retry-after': String(Math.ceil(ttl / 1000)) },
      }),
  });
  const limit = app.rateLimit() as (request: FastifyRequest, reply: FastifyReply) => Promise<void>;
  // Ahead of the routes' own hooks, so that bad credentials count too.
  app.addHook('onRequest', (request, reply, done) => {
    // Fastify waits for a promise, or for `done` where there is none.
    if (settings.current.rate_limit_per_minute > 0) return limit(request, reply);
    done();
    return undefined;
  });
}
