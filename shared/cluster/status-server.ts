/** What monitoring asks of a node, whatever it hosts. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { ServiceBroker } from 'moleculer';
import type { Registry } from 'prom-client';
import { serviceCaller } from '../access.ts';
import { callAs } from './request.ts';

/** Each part that this node needs by name, and whether all answer. */
export async function readiness(
  broker: ServiceBroker,
): Promise<{ code: 200 | 503; body: { status: string; checks: Record<string, unknown> } }> {
  const checks = await callAs(
    broker,
    'cluster.node.health',
    {},
    { caller: serviceCaller(broker.nodeID), requestId: 'health', nodeID: broker.nodeID },
  );
  const ready = Object.values(checks).every(Boolean);
  return { code: ready ? 200 : 503, body: { status: ready ? 'ready' : 'not_ready', checks } };
}

export interface StatusOptions {
  readonly broker: ServiceBroker;
  readonly metrics: Registry;
  readonly host: string;
  readonly port: number;
}

/** Serves `/healthz`, `/readyz` and `/metrics` on METRICS_PORT. Returns how to stop. */
export async function startStatusServer({
  broker,
  metrics,
  host,
  port,
}: StatusOptions): Promise<() => Promise<void>> {
  const json = 'application/json';
  const pages: Readonly<
    Record<string, () => Promise<{ code: number; type: string; text: string }>>
  > = {
    '/healthz': async () => ({ code: 200, type: json, text: '{"status":"ok"}' }),
    '/readyz': async () => {
      const { code, body } = await readiness(broker);
      return { code, type: json, text: JSON.stringify(body) };
    },
    '/metrics': async () => ({
      code: 200,
      type: metrics.contentType,
      text: await metrics.metrics(),
    }),
  };
  const none = async () => ({ code: 404, type: json, text: '{"status":"not_found"}' });
  const server = createServer((request, response) => {
    const page =
      request.method === 'GET' && Object.hasOwn(pages, request.url ?? '')
        ? pages[request.url!]!
        : none;
    page()
      .catch(() => ({ code: 500, type: json, text: '{"status":"error"}' }))
      .then(
        ({ code, type, text }) => response.writeHead(code, { 'content-type': type }).end(text),
        () => response.destroy(),
      );
  });
  await once(server.listen(port, host), 'listening');
  return async () => {
    server.closeAllConnections();
    await new Promise((done) => {
      server.close(done);
    });
  };
}
