import cors from '@fastify/cors';
import rateLimit from '@fastify/rate-limit';
import scalar from '@scalar/fastify-api-reference';
import fastify, {
  LogController,
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify';
import type { Redis } from 'ioredis';
import type { ServiceBroker } from 'moleculer';
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { LiveSettings } from '../shared/live-settings.ts';
import type { LocalCache } from '../shared/cluster/local-cache.ts';
import { readiness } from '../shared/cluster/status-server.ts';
import type { Coherence } from '../shared/cluster/coherence/coherence.ts';
import { codeOf, invalid, StrataError, toAnswer } from '../shared/errors.ts';
import { InexactJson, InvalidJson, parseExactJson } from '../shared/schema/exact-json.ts';
import { createAuthenticator } from './authenticate.ts';
import { observeRequests } from './metrics.ts';
import { openApi } from './openapi.ts';
import { ownHandlers } from './reload.ts';
import { createFastPath, type Answered, type FastPath } from './fast-path.ts';
import { registerRoutes } from './routes.ts';
import { jsonHeaders, pageHeaders } from './security-headers.ts';
import { createWatch } from './watch.ts';

export interface AppOptions {
  readonly broker: ServiceBroker;
  readonly coherence: Coherence;
  readonly localCache: LocalCache;
  readonly settings: LiveSettings;
  readonly log: Logger;
  readonly metrics: Registry;
  readonly version: string;
  /** Shares the rate limit between gateways. */
  readonly redis?: Redis;
}

const bodyLimit = 1024 * 1024;
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Fastify's own refusals in our codes. */
const frameworkCodes: Readonly<Record<string, () => StrataError>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: () => new StrataError('payload_too_large'),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () => new StrataError('unsupported_media_type'),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () =>
    new StrataError('invalid_json', 'The body is not as long as Content-Length says.'),
  FST_ERR_CTP_EMPTY_JSON_BODY: () => new StrataError('invalid_json', 'The body is empty.'),
  FST_ERR_MAX_PARAM_LENGTH: () => new StrataError('not_found', 'A part of the path is too long.'),
  FST_ERR_BAD_URL: () => new StrataError('not_found', 'The path is not valid.'),
  FST_ERR_ASYNC_CONSTRAINT: () => new StrataError('not_found'),
};

function parseBody(body: Buffer): unknown {
  let text: string;
  try {
    text = utf8.decode(body);
  } catch {
    throw new StrataError('invalid_json', 'The body is not valid UTF-8.');
  }
  try {
    return parseExactJson(text);
  } catch (error) {
    if (error instanceof InexactJson) throw invalid(error.problems, error.message);
    if (error instanceof InvalidJson) throw new StrataError('invalid_json', error.message);
    throw error;
  }
}

/** The caller's own, where it is a sane one. Else a random one: a number would tell callers how much others ask. */
const requestIdOf = ({ headers: { 'x-request-id': given } }: IncomingMessage): string =>
  given !== undefined && /^[A-Za-z0-9._-]{1,128}$/.test(given as string)
    ? (given as string)
    : randomUUID();

/** What is no HTTP has no request to answer: the envelope goes to the connection, which then ends. */
function refuseUnreadable({ code }: { readonly code?: string }, socket: Socket): void {
  if (code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const why =
    code === 'HPE_HEADER_OVERFLOW'
      ? 'The headers are too large.'
      : code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? 'The request did not arrive in time.'
        : undefined;
  const requestId = randomUUID();
  const { status, body } = toAnswer(new StrataError('invalid_request', why), requestId);
  const text = JSON.stringify(body);
  socket.end(
    `HTTP/1.1 ${status} Bad Request\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n` +
      `X-Request-ID: ${requestId}\r\nConnection: close\r\n\r\n${text}`,
  );
}

/** `fastPath` goes ahead of the app. */
export interface App {
  readonly app: FastifyInstance;
  readonly fastPath: FastPath;
}

export async function buildApp({
  broker,
  coherence,
  localCache,
  settings,
  log,
  metrics,
  version,
  redis,
}: AppOptions): Promise<App> {
  // A logger per request costs more than the request id that each line of ours names.
  const logger: Logger = Object.create(log, { child: { value: () => logger } });
  const app = fastify({
    loggerInstance: logger as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit,
    trustProxy: [...settings.current.trusted_proxies],
    requestIdHeader: false,
    genReqId: requestIdOf,
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 500 },
    frameworkErrors(error, request, reply) {
      const { status, body } = toAnswer(frameworkCodes[error.code]?.() ?? error, request.id);
      return (reply as FastifyReply)
        .code(status)
        .headers(jsonHeaders)
        .header('x-request-id', request.id)
        .header('content-type', 'application/json')
        .send(Buffer.from(JSON.stringify(body)));
    },
    clientErrorHandler: refuseUnreadable,
    exposeHeadRoutes: true,
    http: { optimizeEmptyRequests: true },
  });

  app.addHook('onSend', (request, reply, payload, done) => {
    reply.header('x-request-id', request.id);
    for (const name in jsonHeaders)
      if (!reply.hasHeader(name)) reply.header(name, jsonHeaders[name]);
    done(null, payload);
  });
  const watch = createWatch(broker, coherence, settings);
  const count = observeRequests(metrics, watch.open);
  // Of fixed fields, none of which can hold a secret, so nothing is searched for one.
  const requestLog = log.child({}, { redact: [] });
  const answered: Answered = (requestId, method, route, status, ms, streamed = false) => {
    // Reads come by the thousand each second, and the metrics count them.
    const level = status < 400 && (method === 'GET' || method === 'HEAD') ? 'debug' : 'info';
    if (requestLog.isLevelEnabled(level) && !/^\/(healthz|readyz|metrics)/.test(route ?? '')) {
      requestLog[level](
        { request_id: requestId, method, route, status, ms: Math.round(ms) },
        'request',
      );
    }
    // How long a stream stayed open says nothing about answering.
    count(method, route ?? 'none', status, streamed ? undefined : ms / 1000);
  };
  app.addHook('onResponse', ({ id, method, routeOptions }, reply, done) => {
    answered(
      id,
      method,
      routeOptions.url,
      reply.statusCode,
      reply.elapsedTime,
      reply.getHeader('content-type') === 'text/event-stream',
    );
    done();
  });
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const own =
      frameworkCodes[error.code]?.() ??
      (error.statusCode === 429 ? new StrataError('rate_limited') : error);
    if (codeOf(own) === 'internal_error')
      log.error({ request_id: request.id, err: error }, 'unexpected error');
    const { status, headers, body } = toAnswer(own, request.id);
    return reply
      .code(status)
      .headers(headers)
      .header('content-type', 'application/json')
      .send(Buffer.from(JSON.stringify(body)));
  });
  app.setNotFoundHandler(() => {
    throw new StrataError('not_found', 'There is nothing at this path.');
  });

  // Node ends the body of a request that announces none before anyone listens, and the parser would wait for the end.
  app.addHook('preParsing', (_request, _reply, payload, done) =>
    done(null, payload.readableEnded ? Readable.from([]) : payload),
  );
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    ['application/json', 'application/merge-patch+json'],
    { parseAs: 'buffer' },
    async (
      { method, headers: { 'content-encoding': coding = 'identity' } }: FastifyRequest,
      body: Buffer,
    ) => {
      if (coding !== 'identity')
        throw new StrataError(
          'unsupported_media_type',
          'Send the body as it is, without Content-Encoding.',
        );
      return body.length === 0 && method !== 'PUT' && method !== 'PATCH'
        ? undefined
        : parseBody(body);
    },
  );

  const { cors_origins: origins } = settings.current;
  if (origins.length > 0) {
    await app.register(cors, {
      origin: origins.includes('*') ? '*' : [...origins],
      methods: ['GET', 'PUT', 'PATCH', 'POST', 'DELETE'],
      maxAge: 600,
      strictPreflight: false,
      exposedHeaders: [
        'ETag',
        'Last-Modified',
        'X-Request-ID',
        'X-Updated-By',
        'X-Config-Revision',
        'X-Config-Stale',
        'X-Next-Cursor',
        'Retry-After',
      ],
    });
  }
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

  // Ahead of the routes' own hooks, so that bad credentials count too.
  const limit = app.rateLimit() as (request: FastifyRequest, reply: FastifyReply) => Promise<void>;
  app.addHook('onRequest', (request, reply, done) =>
    settings.current.rate_limit_per_minute === 0 ? done() : limit(request, reply),
  );

  // Open streams would keep the server from closing.
  app.addHook('preClose', async () => watch.stop());
  app.get('/healthz', async () => ({ status: 'ok' }));
  app.get('/readyz', async (_request, reply) => {
    const { code, body } = await readiness(broker);
    return reply.code(code).send(body);
  });
  app.get('/metrics', async (_request, reply) =>
    reply.header('content-type', metrics.contentType).send(await metrics.metrics()),
  );
  const document = openApi(settings.current.base_url, version);
  app.get('/openapi.json', async () => document);
  await app.register(async (docs) => {
    docs.addHook('onSend', async (_request, reply) => {
      reply
        .headers(pageHeaders)
        .header(
          'content-security-policy',
          "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; connect-src 'self'",
        );
    });
    await docs.register(scalar, {
      routePrefix: '/docs',
      configuration: { url: '/openapi.json', withDefaultFonts: false, telemetry: false } as never,
    });
  });

  const authenticator = createAuthenticator(broker, localCache, settings, log);
  const fastPath = createFastPath({ authenticator, settings, requestIdOf, answered });
  registerRoutes(app, {
    broker,
    localCache,
    authenticator,
    fastPath,
    own: { ...ownHandlers(broker), ...watch.handlers },
    requestTimeoutMs: settings.current.request_timeout_ms,
  });
  return { app, fastPath };
}
