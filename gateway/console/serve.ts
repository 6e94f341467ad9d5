/** Serves the console: one page for all of its addresses, and the files that the page loads. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { StrataError } from '../../shared/errors.ts';
import { pageHeaders } from '../http/security-headers.ts';
import {
  bundleConsole,
  contentSecurityPolicy,
  type ConsoleBundle,
  type Encoded,
} from './bundle.ts';

/** Paths that take GET only, like the routes below. */
export const consolePaths = ['/console', '/console/*'] as const;

/**
 * `baseUrl` is how browsers reach the gateway: a path in it is that of a proxy, which takes it off.
 * The console is bundled when a browser first asks: most gateways of a cluster are never asked.
 */
export function serveConsole(app: FastifyInstance, baseUrl: string): void {
  const prefix = new URL(baseUrl).pathname.replace(/\/$/, '');
  const nothingHere = () => new StrataError('not_found', 'There is nothing at this path.');
  let bundled: Promise<ConsoleBundle> | undefined;
  const bundleOnce = (): Promise<ConsoleBundle> =>
    (bundled ??= bundleConsole(prefix).catch((error: unknown) => {
      bundled = undefined;
      throw error;
    }));

  async function sendPage(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { page } = await bundleOnce();
    reply
      .headers(pageHeaders)
      .header('content-security-policy', contentSecurityPolicy)
      .header('cache-control', 'no-cache');
    return send(page, request, reply);
  }

  for (const path of consolePaths) app.get(path, sendPage);

  /** A page of before an update asks for files of that time, and has to be loaded again. */
  app.get('/console/a/*', async (request, reply) => {
    const { files } = await bundleOnce();
    const file = files.get((request.params as { '*': string })['*']);
    if (!file) throw nothingHere();
    reply.header('cache-control', 'public, max-age=31536000, immutable');
    return send(file, request, reply);
  });

  /** For people who type the host's name; everybody else learns that there is nothing, as ever. */
  app.get('/', async ({ headers }, reply) => {
    if (!headers.accept?.includes('text/html')) throw nothingHere();
    return reply.redirect(`${prefix}/console`, 303);
  });
}

function send(file: Encoded, { headers }: FastifyRequest, reply: FastifyReply): FastifyReply {
  const [coding, bytes] = codingFor(file, String(headers['accept-encoding'] ?? ''));
  if (coding !== undefined) reply.header('content-encoding', coding);
  return reply.header('content-type', file.type).header('vary', 'accept-encoding').send(bytes);
}

function codingFor(
  { plain, gzip, brotli }: Encoded,
  accepted: string,
): readonly [coding: string | undefined, bytes: Buffer] {
  const codings = accepted.split(',').map((each) => each.trim());
  if (codings.some((each) => /^br(;q=(?!0(\.0*)?$)|$)/.test(each))) return ['br', brotli];
  if (codings.some((each) => /^gzip(;q=(?!0(\.0*)?$)|$)/.test(each))) return ['gzip', gzip];
  return [undefined, plain];
}
