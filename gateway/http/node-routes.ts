/** Routes without a contract: what monitoring asks of this node, and the description of the API. */
import fastify, { type FastifyInstance } from 'fastify';
import { readFileSync } from 'node:fs';
import type { Registry } from 'prom-client';
import { codeOfReadiness, type ReadinessCheck } from '../../shared/node/readiness.ts';
import { StrataError } from '../../shared/errors.ts';
import { openApi } from '../openapi/document.ts';
import { pageHeaders } from './security-headers.ts';

/** Paths that take GET only, like the routes below them in this file. */
export const nodePaths = ['/healthz', '/readyz', '/metrics', '/openapi.json'] as const;

/** The metrics are on METRICS_PORT alone where it is set: clients reach PORT. */
export function serveHealth(
  app: FastifyInstance,
  readiness: ReadinessCheck,
  metrics: Registry,
  metricsPort: number,
): void {
  app.get('/healthz', async () => ({ status: 'ok' }));
  app.get('/readyz', async (_request, reply) => {
    const answer = await readiness.ask();
    return reply.code(codeOfReadiness(answer)).send(answer);
  });
  app.get('/metrics', async (_request, reply) => {
    if (metricsPort !== 0)
      throw new StrataError('not_found', 'Metrics are served on METRICS_PORT.');
    return reply.header('content-type', metrics.contentType).send(await metrics.metrics());
  });
}

/**
 * The page loads its script from here and nothing from elsewhere; no script is part of it. Styles
 * are: the library writes them into the page.
 */
const docsPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const docsPath = '/docs';
const docsScript = `${docsPath}/js/scalar.js`;

const icon = readFileSync(new URL('../../console/icon.svg', import.meta.url), 'utf8');

/**
 * Without what the page would offer else: to send the document, or what is tried with it, to
 * services of others.
 */
const configuration = {
  url: '/openapi.json',
  favicon: `data:image/svg+xml,${encodeURIComponent(icon)}`,
  withDefaultFonts: false,
  telemetry: false,
  hideClientButton: true,
  showDeveloperTools: 'never',
  agent: { disabled: true },
  mcp: { disabled: true },
} as const;
const asAttribute = (value: unknown): string =>
  JSON.stringify(value).replaceAll('&', '&amp;').replaceAll('"', '&quot;');

/**
 * The script reads its configuration from the attribute. `prefix` is the path of a proxy, which takes
 * it off.
 */
const docsPage = (prefix: string): string => `<!doctype html>
<html lang="en">
  <head>
    <title>Strata API</title>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
  </head>
  <body>
    <div id="api-reference" data-configuration="${asAttribute({ ...configuration, url: prefix + configuration.url })}"></div>
    <script src="${prefix}${docsScript}"></script>
  </body>
</html>
`;

/**
 * `/openapi.json`, and `/docs`, a page to browse it. The document and the script are made when
 * somebody asks: few gateways are, and each start would wait. Anybody may ask for these megabytes,
 * so they are kept as bytes: a text would be written again for each connection, and kept for it.
 */
export function serveDocs(app: FastifyInstance, baseUrl: string, version: string): void {
  const page = docsPage(new URL(baseUrl).pathname.replace(/\/$/, ''));
  let document: Buffer | undefined;
  app.get('/openapi.json', async (_request, reply) => {
    document ??= Buffer.from(JSON.stringify(openApi(baseUrl, version)));
    return reply.type('application/json; charset=utf-8').send(document);
  });
  app.get(docsPath, async (_request, reply) =>
    reply
      .headers({ ...pageHeaders, 'content-security-policy': docsPolicy })
      .type('text/html; charset=utf-8')
      .send(page),
  );
  let script: Promise<Buffer> | undefined;
  app.get(docsScript, async (_request, reply) => {
    script ??= loadScript();
    return reply.type('application/javascript; charset=utf-8').send(await script);
  });
}

/** The package keeps its script to itself: the plug-in serves it. */
async function loadScript(): Promise<Buffer> {
  const { default: scalar } = await import('@scalar/fastify-api-reference');
  const docs = fastify();
  await docs.register(scalar, { routePrefix: docsPath, configuration });
  const { rawPayload } = await docs.inject({ method: 'GET', url: docsScript });
  await docs.close();
  return rawPayload;
}
