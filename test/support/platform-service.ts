/**
 * A platform service with SECRET_KEY, as moleculer.config.ts makes it, which reads from its own
 * memory. Answers `GET /?action=&params=` with what the action says, in the form that a gateway
 * gives it.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ServiceBroker } from 'moleculer';
import config from '../../moleculer.config.ts';
import { serviceCaller } from '../../shared/access.ts';
import { errorResponse } from '../../shared/errors.ts';

interface Result {
  readonly document?: unknown;
  readonly revision?: unknown;
  readonly stale?: true;
}

const broker = new ServiceBroker(config);
await broker.start();
await broker.waitForServices(['config-resolver', 'tenant-config', 'global-config'], 60_000);

async function answer(url: string, response: ServerResponse): Promise<void> {
  const { searchParams: asked } = new URL(url, 'http://localhost');
  const params = JSON.parse(asked.get('params')!) as object;
  response.setHeader('content-type', 'application/json');
  try {
    const options = { meta: { caller: serviceCaller('platform-service') } };
    const result = await broker.call<Result, object>(asked.get('action')!, params, options);
    const { document = result, revision, stale } = result;
    if (stale) response.setHeader('x-config-stale', 'true');
    if (result.document !== undefined) response.setHeader('x-config-revision', String(revision));
    response.end(JSON.stringify(document));
  } catch (error) {
    const { status, body } = errorResponse(error, '');
    response.statusCode = status;
    response.end(JSON.stringify(body));
  }
}

const server = createServer((request, response) => {
  void answer(request.url!, response);
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`serves on http://127.0.0.1:${port}\n`);
});
