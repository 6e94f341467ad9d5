/** The form that OAuth's token endpoint takes instead of JSON (RFC 6749, 3.2). */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { invalid, StrataError } from '../../shared/errors.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Those of RFC 6749 and RFC 8693; others are ignored, as 3.2 says. */
const known: ReadonlySet<string> = new Set([
  'grant_type',
  'subject_token',
  'subject_token_type',
  'actor_token',
  'actor_token_type',
  'resource',
  'audience',
  'scope',
  'requested_token_type',
]);

/** A parameter without a value counts as left out; one that is given twice is refused. */
function formOf(body: Buffer): Record<string, string> {
  let text: string;
  try {
    text = utf8.decode(body);
  } catch {
    throw new StrataError('invalid_request', 'The form is not valid UTF-8.');
  }
  const given = [...new URLSearchParams(text)].filter(
    ([name, value]) => value !== '' && known.has(name),
  );
  const names = given.map(([name]) => name);
  const twice = names.find((name, index) => names.indexOf(name) < index);
  if (twice !== undefined) throw invalid([{ path: `/${twice}`, message: 'is given twice' }]);
  return Object.fromEntries(given);
}

/** In place of a body of another type. */
const noForm = Symbol('no form');

/** Takes forms and nothing else. */
export function takeForms(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'buffer' },
    async (_request: FastifyRequest, body: Buffer) => formOf(body),
  );
  app.addContentTypeParser('*', { parseAs: 'buffer' }, async () => noForm);
  // Not by the parser: Fastify ends the connection of a body that one refuses.
  app.addHook('preValidation', async ({ body }) => {
    if (body === noForm)
      throw new StrataError('unsupported_media_type', 'Send application/x-www-form-urlencoded.');
  });
}
