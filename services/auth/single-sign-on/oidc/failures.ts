/** What a failed conversation with an identity provider is answered with. */
import { ResponseBodyError, WWWAuthenticateChallengeError } from 'openid-client';
import type { ErrorCode } from '../../../../shared/contracts/error-codes.ts';
import { StrataError } from '../../../../shared/errors.ts';
import { OutgoingError } from '../../../../shared/outgoing/outgoing-error.ts';

/** openid-client's codes for an answer that is no OpenID Connect at all. */
const protocolErrors = new Set([
  'OAUTH_RESPONSE_IS_NOT_CONFORM',
  'OAUTH_RESPONSE_IS_NOT_JSON',
  'OAUTH_HTTP_REQUEST_FORBIDDEN',
  'OAUTH_REQUEST_PROTOCOL_FORBIDDEN',
  'OAUTH_MISSING_SERVER_METADATA',
  'OAUTH_INVALID_SERVER_METADATA',
]);
/**
 * Errors of the token endpoint (RFC 6749, 5.2) that say our registration is wrong, not what the
 * person brought.
 */
const registrationErrors = new Set(['invalid_client', 'unauthorized_client']);

const maxErrorLength = 100;

/**
 * Errors of openid-client carry tokens and claims in their own cause, so only a sentence of ours is
 * passed on to the log.
 */
const failure = (code: ErrorCode, reason: string): StrataError =>
  new StrataError(code, undefined, { cause: new Error(reason) });

function tokenEndpointFailure({ status, error }: ResponseBodyError): StrataError {
  const refusedCode = status < 500 && !registrationErrors.has(error);
  const code = refusedCode ? 'auth_sso_exchange_failed' : 'auth_sso_provider_error';
  return failure(code, `token endpoint: ${error.slice(0, maxErrorLength)}`);
}

/**
 * The `auth_sso_*` error for what openid-client threw; `otherwise` where it says nothing about
 * whose fault it is.
 */
export function failureOf(error: unknown, otherwise: ErrorCode): StrataError {
  // Whatever its class, an error of openid-client or fetch has these, some of them empty.
  const { message, code, cause } = error as { message?: string; code?: string; cause?: unknown };
  const outgoing = [error, cause].find((each) => each instanceof OutgoingError);
  if (outgoing) {
    const timedOut = outgoing.reason === 'timed_out';
    const outgoingCode = timedOut ? 'auth_sso_provider_timeout' : 'auth_sso_provider_error';
    return failure(outgoingCode, outgoing.message);
  }
  if (error instanceof ResponseBodyError) return tokenEndpointFailure(error);
  const isProtocolError =
    error instanceof WWWAuthenticateChallengeError ||
    (code !== undefined && protocolErrors.has(code));
  const reason = `${message} ${code ?? ''}`.trim();
  return failure(isProtocolError ? 'auth_sso_provider_error' : otherwise, reason);
}
