/**
 * Puts the gateway together: Fastify with everything that a request passes on its way, and the fast
 * path ahead of it.
 */
import fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify';
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Logger } from 'pino';
import type { Node } from '../../shared/node/broker.ts';
import type { ReadinessCheck } from '../../shared/node/readiness.ts';
import { HeldRequests } from '../../shared/concurrency/held-requests.ts';
import type { LiveSettings } from '../../shared/settings/live-settings.ts';
import { createAuthenticator, type Authenticator } from './authenticate.ts';
import { serveConsole } from '../console/serve.ts';
import { consoleSessionHandlers } from '../console/session.ts';
import { allowOrigins } from './cors.ts';
import { mapErrors, refuseBeforeRouting } from './error-responses.ts';
import { HeldAnswers } from './held-answer.ts';
import { createFastPath } from '../fast-path/fast-path.ts';
import { observeRequests } from './metrics.ts';
import { serveDocs, serveHealth } from './node-routes.ts';
import { trustOf } from './client-address.ts';
import { createRateLimit, limitRate } from './rate-limit.ts';
import { bodyLimit, parseBodies } from './request-body.ts';
import { createRequestLog, recordResponses } from './request-log.ts';
import { registerRoutes } from './routes.ts';
import { commonHeaders, httpsOnly } from './security-headers.ts';
import { createGatewayServer, type GatewayServer } from './server.ts';
import { serveMcp } from '../mcp/mcp.ts';
import { flagHandlers } from '../streams/flags.ts';
import { createTickets } from '../streams/tickets.ts';
import { createWatch } from '../streams/watch.ts';
import { wellKnownHandlers } from './well-known.ts';
import type { RedisClient } from '../../shared/concurrency/redis.ts';

export interface AppOptions extends Node {
  /** Read at every request where a reload may change them. */
  readonly settings: LiveSettings;
  readonly readiness: ReadinessCheck;
  /** Of Strata, for the OpenAPI document. */
  readonly version: string;
  /** Shares the rate limit between gateways; without it each gateway counts for itself. */
  readonly redis?: RedisClient;
}

export interface App {
  readonly app: FastifyInstance;
  /** The server that `app` listens with; it has to be stopped before the app is closed. */
  readonly server: GatewayServer;
  readonly authenticator: Authenticator;
  /** To be stopped before the server, which waits for them. */
  readonly heldAnswers: HeldAnswers;
}

export async function buildApp(options: AppOptions): Promise<App> {
  const { broker, coherence, localCache, settings, log, metrics, readiness, version, redis } =
    options;
  const watch = createWatch(broker, coherence, settings);
  const streams = { ...watch, max: () => settings.current.watch_max_streams };
  const record = createRequestLog(log, observeRequests(metrics, streams));
  const authenticator = createAuthenticator(broker, localCache, settings, log);
  const tickets = createTickets(settings);
  const trust = trustOf(settings.current.trusted_proxies);
  const rateLimit = createRateLimit(settings, trust, redis);
  const fastPath = createFastPath({ authenticator, settings, rateLimit, requestIdOf, record });
  const server = createGatewayServer(fastPath, requestIdOf, record);
  const heldAnswers = new HeldAnswers();

  const app = fastify({
    serverFactory: server.create,
    loggerInstance: withoutChildren(log) as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit,
    trustProxy: trust,
    requestIdHeader: false,
    genReqId: requestIdOf,
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 500 },
    frameworkErrors: refuseBeforeRouting(record),
    clientErrorHandler: server.refuse,
    exposeHeadRoutes: true,
  });
  keepSettings(app, settings);
  addCommonHeaders(app);
  if (settings.current.base_url.startsWith('https:')) keepToHttps(app);
  recordResponses(app, record);
  mapErrors(app, log);
  parseBodies(app);
  await allowOrigins(app, settings);
  limitRate(app, rateLimit);
  // Open streams would keep the server from closing.
  app.addHook('preClose', async () => watch.stop());
  serveHealth(app, readiness, metrics, settings.current.metrics_port);
  serveDocs(app, settings.current.base_url, version);
  serveConsole(app, settings.current.base_url);
  serveMcp(app, { broker, authenticator, settings, log, metrics, version });
  registerRoutes(app, {
    broker,
    localCache,
    authenticator,
    tickets,
    fastPath,
    own: {
      ...watch.handlers,
      ...flagHandlers(broker, tickets, settings),
      ...consoleSessionHandlers(broker),
      ...wellKnownHandlers(broker, settings),
    },
    requestTimeoutMs: settings.current.request_timeout_ms,
    heldRequests: new HeldRequests(() => settings.current),
    heldAnswers,
  });
  return { app, server, authenticator, heldAnswers };
}

/**
 * The caller's own request id where it is a sane one; else the id of the trace that the request is
 * part of, so that logs, audit and traces name the same; else a random one: a number would tell
 * callers how much others ask.
 */
function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  const isSane = typeof given === 'string' && /^[A-Za-z0-9._-]{1,128}$/.test(given);
  return isSane ? given : (traceIdOf(headers.traceparent) ?? randomUUID());
}

/** W3C Trace Context, section 3.2: what is no header of a known form is as if it were not there. */
function traceIdOf(traceparent: unknown): string | undefined {
  if (typeof traceparent !== 'string') return undefined;
  const form = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;
  const [, version, traceId, parentId, more] = form.exec(traceparent) ?? [];
  const isWhole = version !== '00' || more === undefined;
  const isZero = (id: string | undefined): boolean => id === undefined || /^0+$/.test(id);
  return isWhole && !isZero(traceId) && !isZero(parentId) ? traceId : undefined;
}

/**
 * The same log, which Fastify may not derive one from for every request: that costs more than the
 * request id that our lines name.
 */
function withoutChildren(log: Logger): Logger {
  const single = Object.create(log, { child: { value: () => single } }) as Logger;
  return single;
}

/**
 * A reload may come between the hooks that set headers and the route that teaches them to the fast
 * path.
 */
function keepSettings(app: FastifyInstance, settings: LiveSettings): void {
  app.decorateRequest('settings', undefined);
  app.addHook('onRequest', (request, _reply, done) => {
    request.settings = settings.current;
    done();
  });
}

/** Those that the response has not set otherwise. */
function addCommonHeaders(app: FastifyInstance): void {
  app.addHook('onSend', (request, reply, payload, done) => {
    for (const [name, value] of Object.entries(commonHeaders(request.id))) {
      if (!reply.hasHeader(name)) reply.header(name, value);
    }
    done(null, payload);
  });
}

/** Ahead of the handlers, so that the fast path learns it with the answer. */
function keepToHttps(app: FastifyInstance): void {
  app.addHook('onRequest', (_request, reply, done) => {
    reply.headers(httpsOnly);
    done();
  });
}
