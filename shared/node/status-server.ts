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

async function pageFor(asked: string, { readiness, metrics }: StatusOptions): Promise<Page> {
  switch (asked) {
    case 'GET /healthz':
      return jsonPage(200, { status: 'ok' });
    case 'GET /readyz': {
      const answer = await readiness.ask();
      return jsonPage(codeOfReadiness(answer), answer);
    }
    case 'GET /metrics':
      return { code: 200, type: metrics.contentType, text: await metrics.metrics() };
    default:
      return jsonPage(404, { status: 'not_found' });
  }
}

/** Serves `/healthz`, `/readyz` and `/metrics` on METRICS_PORT. Returns how to stop. */
export async function startStatusServer(options: StatusOptions): Promise<() => Promise<void>> {
  const { host, port } = options;
  const server = http.createServer(async ({ method, url }, response) => {
    const page = pageFor(`${method} ${url}`, options);
    const { code, type, text } = await page.catch(() => jsonPage(500, { status: 'error' }));
    response.writeHead(code, { 'content-type': type }).end(text);
  });
  await once(server.listen(port, host), 'listening').catch((error: unknown) => {
    throw cannotListen(error, { host, port, variable: 'METRICS_PORT' });
  });
  return async () => {
    server.closeAllConnections();
    await server[Symbol.asyncDispose]();
  };
}
