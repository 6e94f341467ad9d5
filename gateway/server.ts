/**
 * The gateway's HTTP server: every request goes to the fast path first, then to Fastify, which is given the server through its
 * `serverFactory` option. And how the server stops without refusing a request that has begun.
 */
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import {
  createServer as createNetServer,
  Server as NetServer,
  type AddressInfo,
  type Socket,
} from 'node:net';
import { setImmediate, setTimeout as delay } from 'node:timers/promises';
import type { FastPath } from './fast-path.ts';

/** While the server stops: how long a connection may take to its next request, which is answered and is its last. */
const lastRequestMs = 1000;
/** What Fastify sets on a server that it makes itself. */
const keepAliveMs = 72_000;
const noRequestTimeout = 0;

export interface GatewayServer {
  /** Fastify's `serverFactory`; called once. `handler` is Fastify. */
  readonly create: (handler: RequestListener) => Server;
  /**
   * `localhost` may stand for 127.0.0.1 and ::1. Fastify listens on one of them with a server that it is given; this listens on the
   * others, too, and does nothing for other hosts. An address that cannot be listened on is left out.
   */
  readonly listenBeside: (host: string) => Promise<void>;
  /**
   * Refuses no request that has begun, nor one that is on its way over an open connection: such connections end with their next
   * answer, and only those that stay silent are closed. `closeApp` is called once they have had their time.
   */
  readonly stop: (closeApp: () => Promise<unknown>) => Promise<void>;
}

export function createGatewayServer(fastPath: FastPath): GatewayServer {
  let server: Server;
  /** The server itself, and those that only accept connections for it. */
  const listeners: NetServer[] = [];
  /** Connections that have not had a request. Clients open them ahead of need, and Node counts them as busy. */
  const unused = new Set<Socket>();
  let stopping = false;

  return {
    create(handler) {
      server = createServer({ optimizeEmptyRequests: true }, (request, response) => {
        if (unused.size > 0) unused.delete(request.socket);
        if (stopping) response.setHeader('connection', 'close');
        const answered = fastPath.tryAnswer(request, response);
        if (!answered) handler(request, response);
      });
      server.keepAliveTimeout = keepAliveMs;
      server.requestTimeout = noRequestTimeout;
      server.on('connection', (socket) => {
        unused.add(socket);
        socket.once('close', () => unused.delete(socket));
      });
      listeners.push(server);
      return server;
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
      const closed = Promise.all(listeners.map((each) => once(each, 'close')));
      // By then the event loop has accepted the connections that were waiting.
      await setImmediate();
      // An HTTP server's own `close` would also end idle connections, over which a request may be on its way.
      for (const each of listeners) NetServer.prototype.close.call(each);
      await Promise.race([closed, delay(lastRequestMs)]);
      for (const socket of unused) socket.destroy();
      server.closeIdleConnections();
      await Promise.all([closeApp(), closed]);
    },
  };
}
