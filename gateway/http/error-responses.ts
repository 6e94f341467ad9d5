/**
 * Every refusal of the gateway in the one envelope that docs and clients know, whoever found the
 * reason: a handler, Fastify or Node. Doors of other protocols have errors of their own: OAuth's token
 * endpoint, AuthZEN, OFREP, SCIM and MCP.
 */
import http from 'node:http';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { finished } from 'node:stream/promises';
import type { Logger } from 'pino';
import {
  codeOf,
  StrataError,
  errorResponse,
  isOutage,
  statusOf,
  type ErrorResponse,
} from '../../shared/errors.ts';
import { decisionPagePolicy, refusedLinkPage } from './decision-page.ts';
import type { SentError } from './foreign-errors.ts';
import { prefers } from './preferred-type.ts';
import type { RecordResponse } from './request-log.ts';
import { commonHeaders, pageHeaders } from './security-headers.ts';

/** Fastify's own refusals in our codes. */
const ownErrors: Readonly<Record<string, () => StrataError>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: () => new StrataError('payload_too_large'),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () => new StrataError('unsupported_media_type'),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () =>
    new StrataError('invalid_json', 'The body is not as long as Content-Length says.'),
  FST_ERR_CTP_EMPTY_JSON_BODY: () => new StrataError('invalid_json', 'The body is empty.'),
  FST_ERR_MAX_PARAM_LENGTH: () => new StrataError('not_found', 'A part of the path is too long.'),
  FST_ERR_BAD_URL: () => new StrataError('not_found', 'The path is not valid.'),
  FST_ERR_ASYNC_CONSTRAINT: () => new StrataError('not_found'),
};

function ownErrorOf(error: FastifyError): unknown {
  const own = ownErrors[error.code];
  return own ? own() : error;
}

function send(error: SentError, reply: FastifyReply): FastifyReply {
  const { status, headers, body, mediaType = 'application/json' } = error;
  reply.code(status).headers(headers).header('content-type', mediaType);
  // Bytes, since Fastify would add a charset to the type of a text.
  return reply.send(Buffer.from(JSON.stringify(body)));
}

/** People follow the links of mails in browsers, which show JSON as it is. */
const sendErrorPage = (
  { status, headers, body }: ErrorResponse,
  reply: FastifyReply,
): FastifyReply =>
  reply
    .code(status)
    .headers({ ...headers, ...pageHeaders })
    .header('cache-control', 'no-store')
    .header('content-type', 'text/html; charset=utf-8')
    .header('content-security-policy', decisionPagePolicy)
    .send(refusedLinkPage(body));

/** Refusals of Fastify's router, which come before any hook has run. */
export const refuseBeforeRouting =
  (record: RecordResponse) =>
  (error: FastifyError, { id, method }: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const response = errorResponse(ownErrorOf(error), id);
    record(id, method, undefined, response.status, 0);
    return send(response, reply.headers(commonHeaders(id)));
  };

/**
 * Errors of hooks and handlers, and paths that do not exist. The log has the cause of an unexpected
 * one, and of an outage, which the node that it is of may not have observed.
 */
export function mapErrors(app: FastifyInstance, log: Logger): void {
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const { id } = request;
    const own = ownErrorOf(error);
    if (codeOf(own) === 'payload_too_large' && !request.raw.complete)
      return untilRead(request.raw).then(() => answer(own, request, reply));
    if (hasHungUp(request))
      log.info({ request_id: id }, 'the client hung up before its request ended');
    else if (codeOf(own) === 'internal_error')
      log.error({ request_id: id, err: error }, 'unexpected error');
    else if (isOutage(own))
      log.warn(
        { request_id: id, code: codeOf(own), reason: (own as Error).message },
        'what a request needs is away or full',
      );
    return answer(own, request, reply);
  });
  app.setNotFoundHandler(() => {
    throw new StrataError('not_found', 'There is nothing at this path.');
  });
}

/** In the form of the route. */
function answer(own: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const error = errorResponse(own, request.id);
  if (wantsPage(request)) return sendErrorPage(error, reply);
  return send(request.routeOptions.config?.wording?.(error, request) ?? error, reply);
}

/**
 * Until the rest of a body that is too large has come, which nobody keeps: where the connection ended
 * before, its sender would meet that in place of the answer. Whoever takes longer does.
 */
async function untilRead(raw: IncomingMessage): Promise<void> {
  raw.resume();
  const options = { signal: AbortSignal.timeout(hangUpMs) };
  await finished(raw, options).catch(() => undefined);
}

/** The connection is gone, and part of the body never came: nobody reads an answer. */
const hasHungUp = ({ raw }: FastifyRequest): boolean => raw.destroyed && !raw.complete;

const wantsPage = ({ routeOptions, headers }: FastifyRequest): boolean =>
  routeOptions.config?.isPage === true && prefers(headers.accept, 'text/html');

/**
 * With a refusal ahead of Fastify, so that the rest of the request is not waited for: the
 * connection ends.
 */
export const hangingUp = { connection: 'close' };

/** A refusal ahead of Fastify. `more` are further headers. */
export function refuseRequest(
  error: StrataError,
  requestId: string,
  response: ServerResponse,
  more: OutgoingHttpHeaders,
): void {
  const { status, headers, body } = errorResponse(error, requestId);
  const text = JSON.stringify(body);
  response
    .writeHead(status, {
      ...commonHeaders(requestId),
      ...more,
      ...headers,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    })
    .end(text);
}

/** How long a client that is refused may take to read that and to hang up, in milliseconds. */
const hangUpMs = 1000;

/**
 * Answers what is no request, or none that arrives in time: the envelope goes to the connection,
 * which then ends.
 */
export function refuseUnreadable(
  { code }: { readonly code?: string },
  socket: Socket,
  record: RecordResponse,
): void {
  if (code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const requestId = randomUUID();
  const { status, body } = errorResponse(unreadableError(code), requestId);
  record(requestId, 'none', undefined, status, 0);
  const text = JSON.stringify(body);
  const headers = {
    ...commonHeaders(requestId),
    ...hangingUp,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\n${lines.join('')}\r\n${text}`);
  if (status === statusOf('request_timeout')) {
    // The rest of the request must not arrive after all and be acted upon.
    socket.destroySoon();
    return;
  }
  // The client may leave its half open for ever.
  const straggler = setTimeout(() => socket.destroy(), hangUpMs);
  socket.once('close', () => clearTimeout(straggler));
}

function unreadableError(code: string | undefined): StrataError {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new StrataError('request_timeout');
    case 'HPE_HEADER_OVERFLOW':
      return new StrataError('invalid_request', 'The headers are too large.');
    default:
      return new StrataError('invalid_request');
  }
}
