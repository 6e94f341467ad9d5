/**
 * Puts the gateway together, starts it as the settings say, and stops it without losing a request.
 */
import type { AddressInfo } from 'node:net';
import { cannotListen } from '../shared/process/listening.ts';
import { takesClearCredentials } from '../shared/settings/settings.ts';
import { buildApp, type App, type AppOptions } from './http/app.ts';
import { openToNeighbours } from './neighbours.ts';

export interface Gateway {
  readonly url: string;
  readonly stop: () => Promise<void>;
}

/** A gateway that takes no requests yet. */
export interface MadeGateway {
  /** Once the node has joined. Throws CannotStart where the address cannot be had. */
  readonly listen: () => Promise<Gateway>;
}

export async function createGateway(options: AppOptions): Promise<MadeGateway> {
  const app = await buildApp(options);
  return { listen: () => listen(app, options) };
}

async function listen(
  { app, server, authenticator, heldAnswers }: App,
  { broker, log, settings }: AppOptions,
): Promise<Gateway> {
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
    ? openToNeighbours({
        broker,
        authenticator,
        heldAnswers,
        log,
        namespace,
        requestTimeoutMs,
      })
    : undefined;
  // An IPv6 address is in brackets (RFC 3986, section 3.2.2).
  const shownHost = host.includes(':') ? `[${host}]` : host;
  return {
    url: `http://${shownHost}:${bound}`,
    async stop() {
      heldAnswers.stop();
      await neighbours?.stop();
      await server.stop(() => app.close());
    },
  };
}
