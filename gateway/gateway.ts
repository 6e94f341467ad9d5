import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { buildApp, type AppOptions } from './app.ts';

export interface Gateway { readonly url: string; readonly stop: () => Promise<void> }

/** While the gateway stops: how long a connection may take to its next request, which is answered and is its last. */
const lastRequestMs = 1000;

/**
 * Listens as the settings say. `stop` refuses no request that has begun, nor one that is on its way over an open connection: such
 * connections end with their next answer, and only those that stay silent are closed.
 */
export async function startGateway(options: AppOptions): Promise<Gateway> {
  const app = await buildApp(options);
  const state = { stopping: false };
  const open = new Set<Socket>();
  // Clients open connections ahead of need, and the server counts one without a request as busy.
  const unused = new Set<Socket>();
  app.server.on('connection', (socket) => {
    open.add(socket);
    unused.add(socket);
    socket.once('close', () => { open.delete(socket); unused.delete(socket); });
  });
  app.server.prependListener('request', ({ socket }, response: ServerResponse) => {
    unused.delete(socket);
    if (state.stopping) response.setHeader('connection', 'close');
  });
  const { host, port } = options.settings.current;
  await app.listen({ host, port });
  const { port: bound } = app.server.address() as AddressInfo;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    async stop() {
      state.stopping = true;
      const patience = new AbortController();
      await Promise.race([delay(lastRequestMs, undefined, patience), Promise.all([...open].map((socket) => once(socket, 'close')))]);
      patience.abort();
      const timer = setTimeout(() => { for (const socket of unused) socket.destroy(); }, lastRequestMs);
      await app.close();
      clearTimeout(timer);
    },
  };
}
