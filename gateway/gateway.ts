/** Starts the gateway as the settings say, and stops it without losing a request. */
import type { AddressInfo } from 'node:net';
import { cannotListen } from '../shared/listening.ts';
import { takesClearCredentials } from '../shared/settings.ts';
import { buildApp, type AppOptions } from './app.ts';
import { openToNeighbours } from './neighbours.ts';

export interface Gateway {
  readonly url: string;
  readonly stop: () => Promise<void>;
}

export async function startGateway(options: AppOptions): Promise<Gateway> {
  const { app, server, authenticator } = await buildApp(options);
  const { broker, log, settings } = options;
  const {
    host,
    port,
    nats_namespace: namespace,
    request_timeout_ms: requestTimeoutMs,
  } = settings.current;
  await app.listen({ host, port }).catch((error: unknown) => {
    throw cannotListen(error, { host, port, variable: 'PORT' });
  });
  await server.listenBeside(host);
  const { port: bound } = app.server.address() as AddressInfo;
  const neighbours = takesClearCredentials(settings.current)
    ? openToNeighbours({ broker, authenticator, log, namespace, requestTimeoutMs })
    : undefined;
  // An IPv6 address stands in brackets (RFC 3986, section 3.2.2).
  const shownHost = host.includes(':') ? `[${host}]` : host;
  return {
    url: `http://${shownHost}:${bound}`,
    async stop() {
      await neighbours?.stop();
      await server.stop(() => app.close());
    },
  };
}
