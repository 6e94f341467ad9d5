/**
 * What monitoring asks of a node, whatever it hosts. The gateway answers the same by its own
 * routes.
 */
import { once } from 'node:events';
import http from 'node:http';
import type { Registry } from 'prom-client';
import { cannotListen } from '../process/listening.ts';
import { codeOfReadiness, type ReadinessCheck } from './readiness.ts';

interface Page {
  readonly code: number;
  readonly type: string;
  readonly text: string;
}

const jsonPage = (code: number, body: unknown): Page => ({
  code,
  type: 'application/json',
  text: JSON.stringify(body),
});

export interface StatusOptions {
  readonly readiness: ReadinessCheck;
  readonly metrics: Registry;
  readonly host: string;
  readonly port: number;
}

/** Serves `/healthz`, `/readyz` and `/metrics` on METRICS_PORT. Returns how to stop. */
export async function startStatusServer({
  readiness,
  metrics,
  host,
  port,
}: StatusOptions): Promise<() => Promise<void>> {
  const pages = new Map<string, () => Promise<Page>>([
    ['GET /healthz', async () => jsonPage(200, { status: 'ok' })],
    [
      'GET /readyz',
      async () => {
        const answer = await readiness.ask();
        return jsonPage(codeOfReadiness(answer), answer);
      },
    ],
    [
      'GET /metrics',
      async () => ({ code: 200, type: metrics.contentType, text: await metrics.metrics() }),
    ],
  ]);
  async function pageFor(asked: string): Promise<Page> {
    const page = pages.get(asked);
    if (!page) return jsonPage(404, { status: 'not_found' });
    return page().catch(() => jsonPage(500, { status: 'error' }));
  }
  const server = http.createServer((request, response) => {
    pageFor(`${request.method} ${request.url}`).then(
      ({ code, type, text }) => response.writeHead(code, { 'content-type': type }).end(text),
      () => response.destroy(),
    );
  });
  await once(server.listen(port, host), 'listening').catch((error: unknown) => {
    throw cannotListen(error, { host, port, variable: 'METRICS_PORT' });
  });
  return async () => {
    server.closeAllConnections();
    await new Promise((done) => {
      server.close(done);
    });
  };
}
