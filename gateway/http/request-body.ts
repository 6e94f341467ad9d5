/** How bodies are read: JSON alone, exactly as it was meant, or not at all. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Readable } from 'node:stream';
import { scimMediaType } from '../../shared/contracts/scim.ts';
import { invalid, StrataError } from '../../shared/errors.ts';
import { InexactJson, InvalidJson } from '../../shared/schema/exact-json.ts';
import { parseExactJsonInChunks } from '../../shared/schema/exact-json-in-chunks.ts';

/** Bytes. A longer body is refused with 413. */
export const bodyLimit = 1024 * 1024;

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export function parseBodies(app: FastifyInstance): void {
  // Node ends the body of a request that announces none before anyone listens, and the parser would
  // wait for that end for ever.
  app.addHook('preParsing', (_request, _reply, payload, done) =>
    done(null, payload.readableEnded ? Readable.from([]) : payload),
  );
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    ['application/json', 'application/merge-patch+json', scimMediaType],
    { parseAs: 'buffer' },
    async ({ method, headers }: FastifyRequest, body: Buffer) => {
      const coding = headers['content-encoding'] ?? 'identity';
      if (coding !== 'identity')
        throw new StrataError(
          'unsupported_media_type',
          'Send the body as it is, without Content-Encoding.',
        );
      const mayBeAbsent = method !== 'PUT' && method !== 'PATCH';
      if (body.length === 0 && mayBeAbsent) return undefined;
      return parseBody(body);
    },
  );
}

/**
 * Throws `invalid_json` for what is no JSON, and 422 for JSON that would lose something, such as a
 * field given twice.
 */
async function parseBody(body: Buffer): Promise<unknown> {
  const text = decode(body);
  try {
    return await parseExactJsonInChunks(text);
  } catch (error) {
    if (error instanceof InexactJson) throw invalid(error.problems, error.message);
    if (error instanceof InvalidJson) throw new StrataError('invalid_json', error.message);
    throw error;
  }
}

function decode(body: Buffer): string {
  try {
    return utf8.decode(body);
  } catch {
    throw new StrataError('invalid_json', 'The body is not valid UTF-8.');
  }
}
