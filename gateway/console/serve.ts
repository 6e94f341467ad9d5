/** Serves the console: one page for all of its addresses, and the files that the page loads. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { StrataError } from '../../shared/errors.ts';
import { pageHeaders } from '../http/security-headers.ts';
import type { ConsoleFiles, Encoded } from './files.ts';

/** Paths that take GET only, like the routes below. */
export const consolePaths = ['/console', '/console/*'] as const;

export function serveConsole(app: FastifyInstance, filesOf: () => Promise<ConsoleFiles>): void {
  const nothingHere = () => new StrataError('not_found', 'There is nothing at this path.');

  async function sendPage(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { page, policy } = await filesOf();
    reply
      .headers(pageHeaders)
      .header('content-security-policy', policy)
      .header('cache-control', 'no-cache');
    return send(page, request, reply);
  }

  for (const path of consolePaths) app.get(path, sendPage);

  /** A page of before an update asks for files of its own version, and has to be loaded again. */
  app.get('/console/a/:version/*', async (request, reply) => {
    const { version, '*': name } = request.params as { version: string; '*': string };
    const made = await filesOf();
    const file = version === made.version ? made.files.get(name) : undefined;
    if (!file) throw nothingHere();
    reply.header('cache-control', 'public, max-age=31536000, immutable');
    return send(file, request, reply);
  });

  /** For people who type the host's name; everybody else learns that there is nothing, as ever. */
  app.get('/', async ({ headers }, reply) => {
    if (!headers.accept?.includes('text/html')) throw nothingHere();
    const { entry } = await filesOf();
    return reply.redirect(entry, 303);
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
