/**
 * The gateway's HTTP server: every request goes to the fast path first, then to Fastify, which is
 * given the server through its `serverFactory` option. What comes before either: how long clients
 * may take, and what no route should have to know of requests. And how the server stops without
 * refusing a request that has begun.
 */
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import http from 'node:http';
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import {
  createServer as createNetServer,
  Server as NetServer,
  type AddressInfo,
  type Socket,
} from 'node:net';
import { setImmediate, setTimeout as delay } from 'node:timers/promises';
import { StrataError } from '../../shared/errors.ts';
import { hangingUp, refuseRequest, refuseUnreadable } from './error-responses.ts';
import type { FastPath } from '../fast-path/fast-path.ts';
import type { RecordResponse } from './request-log.ts';

/**
 * While the server stops: how long a connection may take to its next request, which is answered and
 * is its last.
 */
const lastRequestMs = 1000;

/** How long a client may take, in milliseconds. Whoever takes longer is told so and cut off. */
export interface ClientTimes {
  /** From the connection, or the first byte of a later request, to the last header. */
  readonly headersMs: number;
  /** The same to the end of the body. Making an answer may take as long as it likes. */
  readonly requestMs: number;
  /**
   * From one part of an answer to the next. What a client does not take is kept for it, and
   * thousands of clients could have a node keep megabytes each.
   */
  readonly takeMs: number;
  /**
   * From an answer to the next request. Longer than the minute that load balancers leave a
   * connection idle, so that they close it.
   */
  readonly keepAliveMs: number;
  /** How often connections are looked through for those that take too long. */
  readonly checkMs: number;
}
const clientTimes: ClientTimes = {
  headersMs: 10_000,
  requestMs: 60_000,
  takeMs: 60_000,
  keepAliveMs: 65_000,
  checkMs: 1000,
};

/** The methods that Fastify has routes for, ours or those that refuse. */
const routedMethods = new Set([
  'GET',
  'HEAD',
  'PUT',
  'PATCH',
  'POST',
  'DELETE',
  'OPTIONS',
  'TRACE',
]);

export interface GatewayServer {
  /** Fastify's `serverFactory`; called once. `handler` is Fastify. */
  readonly create: (handler: RequestListener) => Server;
  /**
   * Fastify's `clientErrorHandler`: for what is no request, and for one that does not arrive in
   * time.
   */
  readonly refuse: (error: { readonly code?: string }, socket: Socket) => void;
  /**
   * `localhost` may stand for 127.0.0.1 and ::1. Fastify listens on one of them with a server that
   * it is given; this listens on the others, too, and does nothing for other hosts. An address that
   * cannot be listened on is left out.
   */
  readonly listenBeside: (host: string) => Promise<void>;
  /**
   * Refuses no request that has begun, nor one that is on its way over an open connection: such
   * connections end with their next answer, and only those that stay silent are closed. `closeApp`
   * is called once they have had their time.
   */
  readonly stop: (closeApp: () => Promise<unknown>) => Promise<void>;
}

export function createGatewayServer(
  fastPath: FastPath,
  requestIdOf: (request: IncomingMessage) => string,
  record: RecordResponse,
  times = clientTimes,
): GatewayServer {
  const refuseAhead = refusing(requestIdOf, record);
  let server: Server;
  /** The server itself, and those that only accept connections for it. */
  const listeners: NetServer[] = [];
  /**
   * Each open connection's latest answer; null where it has not had a request. Clients open some
   * ahead of need, and Node counts those as busy.
   */
  const connections = new Map<Socket, ServerResponse | null>();
  let stopping = false;

  function receive(
    handler: RequestListener,
    request: IncomingMessage,
    response: ServerResponse,
  ): void {
    connections.set(request.socket, response);
    if (stopping) announceEnd(response);
    const problem = hostProblem(request);
    if (problem !== undefined) {
      refuseAhead(new StrataError('invalid_request', problem), request, response);
      return;
    }
    // No path takes any other method. Fastify would look for nothing but a route of that method,
    // and find no path either.
    if (!routedMethods.has(request.method!)) request.method = 'TRACE';
    fastPath.answer(request, response, handler);
  }

  /** Whether the request that the connection is still sending has an answer already. */
  const isAnswered = (answer: ServerResponse): boolean =>
    answer.headersSent && !answer.req.complete;

  /** Whether a whole request, which may have been acted upon, waits for its answer. */
  const isPending = (answer: ServerResponse): boolean =>
    answer.req.complete && !answer.writableFinished && !answer.req.socket.destroyed;

  return {
    create(handler) {
      const options = {
        optimizeEmptyRequests: true,
        // Refused here, in the envelope.
        requireHostHeader: false,
        headersTimeout: times.headersMs,
        requestTimeout: times.requestMs,
        keepAliveTimeout: times.keepAliveMs,
        connectionsCheckingInterval: times.checkMs,
      };
      server = http.createServer(options, (request, response) =>
        receive(handler, request, response),
      );
      refuseTunnels(server, refuseAhead);
      server.setTimeout(times.takeMs, (socket) => {
        // An answer that is still made, and a stream, may have nothing to take for longer.
        const isBeingMade = connections.get(socket)?.writableEnded === false;
        if (!isBeingMade || socket.writableLength > 0) socket.destroy();
      });
      server.on('connection', (socket) => {
        connections.set(socket, null);
        socket.once('close', () => connections.delete(socket));
      });
      listeners.push(server);
      return server;
    },

    refuse(error, socket) {
      const answer = connections.get(socket);
      if (answer && isAnswered(answer)) socket.destroySoon();
      else if (answer && isPending(answer)) announceEnd(answer);
      else refuseUnreadable(error, socket, record);
    },

    async listenBeside(host) {
      if (host !== 'localhost') return;
      const { address: bound, port } = server.address() as AddressInfo;
      const addresses = await lookup(host, { all: true });
      for (const { address } of addresses.filter((each) => each.address !== bound)) {
        // The options that an HTTP server has for its connections.
        const beside = createNetServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
          server.emit('connection', socket),
        );
        try {
          beside.listen({ host: address, port });
          await once(beside, 'listening');
          listeners.push(beside);
        } catch {
          beside.close();
        }
      }
    },

    async stop(closeApp) {
      stopping = true;
      for (const answer of connections.values()) if (answer) announceEnd(answer);
      const closed = Promise.all(listeners.map((each) => once(each, 'close')));
      // By then the event loop has accepted the connections that were waiting.
      await setImmediate();
      // An HTTP server's own `close` would also end idle connections, over which a request may be
      // on its way.
      for (const each of listeners) NetServer.prototype.close.call(each);
      await Promise.race([closed, delay(lastRequestMs)]);
      for (const [socket, answer] of connections) if (!answer) socket.destroy();
      server.closeIdleConnections();
      // What was answered in between with headers from before the stop would stay open for the next
      // request.
      const closing = setInterval(() => server.closeIdleConnections(), lastRequestMs);
      try {
        await Promise.all([closeApp(), closed]);
      } finally {
        clearInterval(closing);
      }
    },
  };
}

/** Tells the client that its connection ends with this answer, where that can still be said. */
function announceEnd(answer: ServerResponse): void {
  if (!answer.headersSent) answer.setHeader('connection', 'close');
}

/**
 * What is wrong with the Host header (RFC 9112, section 3.2). HTTP/1.0, which some health checks
 * speak, does not need one.
 */
function hostProblem({ rawHeaders, httpVersion }: IncomingMessage): string | undefined {
  let count = 0;
  // Names and values in turn. `headers` would show the first of two only.
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    if (name.length === 4 && name.toLowerCase() === 'host') count += 1;
  }
  if (count > 1) return 'The request has more than one Host header.';
  return count === 0 && httpVersion === '1.1' ? 'The request has no Host header.' : undefined;
}

type Refuse = (error: StrataError, request: IncomingMessage, response: ServerResponse) => void;

/** Ahead of the fast path and of Fastify, which record what they answer. */
const refusing =
  (requestIdOf: (request: IncomingMessage) => string, record: RecordResponse): Refuse =>
  (error, request, response) => {
    const requestId = requestIdOf(request);
    refuseRequest(error, requestId, response, hangingUp);
    record(requestId, request.method!, undefined, response.statusCode, 0);
  };

/** What Node has events of its own for: CONNECT, and an expectation that nobody meets. */
function refuseTunnels(server: Server, refuse: Refuse): void {
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    const response = new http.ServerResponse(request);
    response.assignSocket(socket);
    refuse(notAProxy(), request, response);
    response.once('finish', () => socket.destroySoon());
  });
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    refuse(new StrataError('expectation_failed'), request, response);
  });
}

/** CONNECT names a server to be connected with, not a path. */
const notAProxy = (): StrataError =>
  new StrataError('method_not_allowed', 'Strata is no proxy.', {
    headers: { allow: 'GET, HEAD, PUT, PATCH, POST, DELETE, OPTIONS' },
  });
