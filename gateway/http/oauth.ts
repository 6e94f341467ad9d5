/**
 * The form and the errors of OAuth's token endpoint (RFC 6749, 3.2 and 5.2), which clients of other
 * makers know: a form instead of JSON, `error` and `error_description` instead of our envelope.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ErrorCode } from '../../shared/contracts/error-codes.ts';
import {
  errorResponse,
  invalid,
  statusOf,
  StrataError,
  type ErrorResponse,
} from '../../shared/errors.ts';

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

/** Takes forms and nothing else. */
export function takeForms(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'buffer' },
    async (_request: FastifyRequest, body: Buffer) => formOf(body),
  );
}

const oauthErrors: Readonly<Partial<Record<ErrorCode, string>>> = {
  auth_workload_token_refused: 'invalid_grant',
  auth_workload_scope_invalid: 'invalid_scope',
  auth_workload_target_invalid: 'invalid_target',
  auth_grant_type_unsupported: 'unsupported_grant_type',
  auth_workload_issuer_error: 'temporarily_unavailable',
  rate_limited: 'temporarily_unavailable',
  timeout: 'temporarily_unavailable',
  service_unavailable: 'temporarily_unavailable',
  upgrade_under_way: 'temporarily_unavailable',
};

/** Of what the client did wrong 400, whatever it was: 5.2 knows no other status. */
const oauthStatus = (code: ErrorCode): number => {
  const status = statusOf(code);
  return status === 429 || status >= 500 ? status : 400;
};

/** What is wrong with which parameters, since there is no other place for it. */
function descriptionOf({ detail, errors }: ErrorResponse['body']): string {
  const problems = (errors ?? []).map(({ path, message }) => `${path.slice(1)} ${message}`);
  // The characters that 5.2 allows.
  return [detail.message, ...problems].join(' ').replaceAll(/[^\x20-\x7e]|["\\]/g, "'");
}

export function sendOAuthError(
  error: unknown,
  requestId: string,
  reply: FastifyReply,
): FastifyReply {
  const { headers, body } = errorResponse(error, requestId);
  const { code } = body.detail;
  const { 'www-authenticate': _challenge, ...others } = headers;
  const otherwise = statusOf(code) >= 500 ? 'server_error' : 'invalid_request';
  const answer = {
    error: oauthErrors[code] ?? otherwise,
    error_description: descriptionOf(body),
  };
  return reply
    .code(oauthStatus(code))
    .headers(others)
    .header('cache-control', 'no-store')
    .header('content-type', 'application/json')
    .send(Buffer.from(JSON.stringify(answer)));
}
