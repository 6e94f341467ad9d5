import type { AddressInfo, Socket } from 'node:net';
import { buildApp, type AppOptions } from './app.ts';

export interface Gateway { readonly url: string; readonly stop: () => Promise<void> }

/** How long a connection may take to begin its first request while the gateway stops. */
const firstRequestMs = 1000;

/** Listens as the settings say; `stop` lets running requests end and refuses none that has begun. */
export async function startGateway(options: AppOptions): Promise<Gateway> {
  const app = await buildApp(options);
  // Clients open connections ahead of need, and the server counts one without a request as busy.
  const unused = new Set<Socket>();
  app.server.on('connection', (socket) => {
    unused.add(socket);
    socket.once('close', () => unused.delete(socket));
  });
  app.server.on('request', ({ socket }) => unused.delete(socket));
  const { host, port } = options.settings.current;
  await app.listen({ host, port });
  const { port: bound } = app.server.address() as AddressInfo;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    async stop() {
      const timer = setTimeout(() => { for (const socket of unused) socket.destroy(); }, firstRequestMs);
      await app.close();
      clearTimeout(timer);
    },
  };
}
