import type { AddressInfo } from 'node:net';
import { buildApp, type AppOptions } from './app.ts';

export interface Gateway { readonly url: string; readonly stop: () => Promise<void> }

/** Listens as the settings say; `stop` lets running requests end and refuses none that has begun. */
export async function startGateway(options: AppOptions): Promise<Gateway> {
  const app = await buildApp(options);
  const { host, port } = options.settings.current;
  await app.listen({ host, port });
  const { port: bound } = app.server.address() as AddressInfo;
  return { url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`, stop: () => app.close() };
}
