/** Starts the gateway as the settings say, and stops it without losing a request. */
import type { AddressInfo } from 'node:net';
import { buildApp, type AppOptions } from './app.ts';

export interface Gateway {
  readonly url: string;
  readonly stop: () => Promise<void>;
}

export async function startGateway(options: AppOptions): Promise<Gateway> {
  const { app, server } = await buildApp(options);
  const { host, port } = options.settings.current;
  await app.listen({ host, port });
  await server.listenBeside(host);
  const { port: bound } = app.server.address() as AddressInfo;
  // An IPv6 address stands in brackets (RFC 3986, section 3.2.2).
  const shownHost = host.includes(':') ? `[${host}]` : host;
  return {
    url: `http://${shownHost}:${bound}`,
    stop: () => server.stop(() => app.close()),
  };
}
