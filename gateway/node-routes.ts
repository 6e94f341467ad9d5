/** Routes without a contract: what monitoring asks of this node, and the description of the API. */
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
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

const docsPath = '/docs';

const icon = readFileSync(new URL('../console/icon.svg', import.meta.url), 'utf8');

/**
 * Without what the page would offer else: to send the document, or what is tried with it, to
 * services of others.
 */
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

/**
 * `/openapi.json`, and `/docs`, a page to browse it. Both are made when somebody asks: few gateways
 * are, and each start would wait.
 */
export function serveDocs(app: FastifyInstance, baseUrl: string, version: string): void {
  let document: ReturnType<typeof openApi> | undefined;
  app.get('/openapi.json', async () => {
    document ??= openApi(baseUrl, version);
    return document;
  });
  let page: Promise<FastifyInstance> | undefined;
  async function sendDocs({ url }: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    page ??= loadDocsPage();
    const docs = await page;
    const { statusCode, headers, rawPayload } = await docs.inject({ method: 'GET', url });
    const { 'content-type': type, location } = headers;
    return reply
      .code(statusCode)
      .headers({ ...pageHeaders, 'content-security-policy': docsPolicy })
      .headers({ ...(type && { 'content-type': type }), ...(location && { location }) })
      .send(rawPayload);
  }
  app.get(docsPath, sendDocs);
  app.get(`${docsPath}/js/scalar.js`, sendDocs);
}

/**
 * The page with its script: a plug-in, which a server takes only before it listens, so it has one
 * of its own.
 */
async function loadDocsPage(): Promise<FastifyInstance> {
  const { default: scalar } = await import('@scalar/fastify-api-reference');
  const docs = fastify({ routerOptions: { ignoreTrailingSlash: true } });
  await docs.register(scalar, { routePrefix: docsPath, configuration: docsPage });
  await docs.ready();
  return docs;
}
