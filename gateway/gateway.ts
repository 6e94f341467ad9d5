import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Server, type AddressInfo, type Socket } from 'node:net';
import { setImmediate, setTimeout as delay } from 'node:timers/promises';
import { buildApp, type AppOptions } from './app.ts';

export interface Gateway {
  readonly url: string;
  readonly stop: () => Promise<void>;
}

/** While the gateway stops: how long a connection may take to its next request, which is answered and is its last. */
const lastRequestMs = 1000;

/**
 * Listens as the settings say. `stop` refuses no request that has begun, nor one that is on its way over an open connection: such
 * connections end with their next answer, and only those that stay silent are closed.
 */
export async function startGateway(options: AppOptions): Promise<Gateway> {
  const { app, fastPath } = await buildApp(options);
  const state = { stopping: false };
  // Clients open connections ahead of need, and the server counts one without a request as busy.
  const unused = new Set<Socket>();
  app.server.on('connection', (socket) => {
    unused.add(socket);
    socket.once('close', () => unused.delete(socket));
  });
  const [answer] = app.server.listeners('request') as [
    (request: IncomingMessage, response: ServerResponse) => void,
  ];
  app.server
    .removeAllListeners('request')
    .on('request', (request: IncomingMessage, response: ServerResponse) => {
      if (unused.size > 0) unused.delete(request.socket);
      if (state.stopping) response.setHeader('connection', 'close');
      if (!fastPath.answer(request, response)) answer(request, response);
    });
  const { host, port } = options.settings.current;
  await app.listen({ host, port });
  const { port: bound } = app.server.address() as AddressInfo;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    async stop() {
      state.stopping = true;
      const closed = once(app.server, 'close');
      // Right after the loop has accepted what was waiting; unlike http's own close it leaves idle connections open.
      await setImmediate();
      Server.prototype.close.call(app.server);
      await Promise.race([closed, delay(lastRequestMs)]);
      for (const socket of unused) socket.destroy();
      app.server.closeIdleConnections();
      await Promise.all([app.close(), closed]);
    },
  };
}
