/** Routes without a contract: what monitoring asks of this node, and the description of the API. */
import scalar from '@scalar/fastify-api-reference';
import type { FastifyInstance } from 'fastify';
import { readFileSync } from 'node:fs';
import type { Registry } from 'prom-client';
import { codeOfReadiness, type ReadinessCheck } from '../shared/cluster/readiness.ts';
import { openApi } from './openapi/document.ts';
import { pageHeaders } from './security-headers.ts';

/** Paths that take GET only, like the routes below them in this file. */
export const nodePaths = ['/healthz', '/readyz', '/metrics', '/openapi.json'] as const;

export function serveHealth(
  app: FastifyInstance,
  readiness: ReadinessCheck,
  metrics: Registry,
): void {
  app.get('/healthz', async () => ({ status: 'ok' }));
  app.get('/readyz', async (_request, reply) => {
    const answer = await readiness.ask();
    return reply.code(codeOfReadiness(answer)).send(answer);
  });
  app.get('/metrics', async (_request, reply) =>
    reply.header('content-type', metrics.contentType).send(await metrics.metrics()),
  );
}

/** The page's scripts and styles are part of the page, and it loads nothing from elsewhere. */
const docsPolicy = [
  "default-src 'self'",
  "script-src 'self' 'unsafe-inline'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "object-src 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

const icon = readFileSync(new URL('../console/icon.svg', import.meta.url), 'utf8');

/** Without what the page would offer else: to send the document, or what is tried with it, to services of others. */
const docsPage = {
  url: '/openapi.json',
  pageTitle: 'Strata API',
  favicon: `data:image/svg+xml,${encodeURIComponent(icon)}`,
  withDefaultFonts: false,
  telemetry: false,
  hideClientButton: true,
  showDeveloperTools: 'never',
  agent: { disabled: true },
  mcp: { disabled: true },
} as const;

/** `/openapi.json`, and `/docs`, a page to browse it. */
export async function serveDocs(
  app: FastifyInstance,
  baseUrl: string,
  version: string,
): Promise<void> {
  const document = openApi(baseUrl, version);
  app.get('/openapi.json', async () => document);
  await app.register(async (docs) => {
    docs.addHook('onSend', async (_request, reply) => {
      reply.headers(pageHeaders).header('content-security-policy', docsPolicy);
    });
    await docs.register(scalar, {
      routePrefix: '/docs',
      configuration: docsPage,
    });
  });
}
