/** Every error code that Strata answers with, and the one place that turns an error into an answer. */
import { Errors } from 'moleculer';

export interface Problem {
  readonly path: string;
  readonly message: string;
}

/** code → HTTP status and the message where nobody gives a better one. Retired codes stay listed. */
export const errorTable = {
  invalid_request: [400, 'This is not a request that HTTP knows.'],
  invalid_json: [400, 'The body is not valid JSON.'],
  auth_token_missing: [401, 'Sign in: send Authorization: Bearer <token>, or X-API-Key.'],
  auth_token_invalid: [401, 'The access token is not valid. Sign in again.'],
  auth_token_expired: [401, 'The access token has expired. Refresh it or sign in again.'],
  auth_session_revoked: [401, 'The session has ended. Sign in again.'],
  auth_api_key_invalid: [401, 'The API key is not valid.'],
  auth_invalid_credentials: [401, 'E-mail or password is wrong.'],
  auth_refresh_invalid: [401, 'The refresh token is not valid. Sign in again.'],
  auth_refresh_expired: [401, 'The refresh token has expired. Sign in again.'],
  auth_refresh_reused: [
    401,
    'The refresh token was used before, so the session was ended. Sign in again.',
  ],
  auth_password_reset_invalid: [
    401,
    'The password reset link is unknown, used or expired. Ask for a new one.',
  ],
  auth_webauthn_challenge_invalid: [
    401,
    'The passkey challenge is unknown, used or expired. Start again.',
  ],
  auth_webauthn_verification_failed: [401, 'The passkey could not be verified.'],
  auth_sso_state_invalid: [401, 'The sign-in state is unknown, used or expired. Start again.'],
  auth_sso_exchange_failed: [401, 'The identity provider refused the authorization code.'],
  auth_sso_token_invalid: [401, 'The identity provider answered with a token that is not valid.'],
  insufficient_role: [403, 'Your roles do not allow this.'],
  insufficient_scope: [403, 'The API key lacks the scope for this.'],
  tenant_mismatch: [403, 'You are not a member of this tenant.'],
  auth_no_tenant_membership: [403, 'You are not a member of that tenant.'],
  auth_tenant_disabled: [403, 'The tenant is disabled.'],
  auth_reauth_required: [403, 'Sign in again: this needs a sign-in of the last 10 minutes.'],
  auth_sso_domain_not_allowed: [
    403,
    'The e-mail domain does not belong to this identity provider.',
  ],
  auth_sso_account_not_provisioned: [403, 'No account exists and the provider may not create one.'],
  not_found: [404, 'Not found.'],
  auth_sso_provider_not_found: [404, 'No identity provider serves this.'],
  method_not_allowed: [405, 'This path does not take this method.'],
  conflict: [409, 'The request conflicts with what is stored.'],
  auth_sso_link_required: [
    409,
    'An account with this e-mail exists. Sign in to it and link the provider.',
  ],
  precondition_failed: [412, 'The resource has changed since you read it.'],
  payload_too_large: [413, 'The body is larger than 1 MiB.'],
  unsupported_media_type: [415, 'Send application/json.'],
  validation_failed: [422, 'The request is not valid.'],
  auth_password_too_short: [422, 'The password needs 12 to 256 characters.'],
  auth_password_breached: [422, 'The password is a common one, or easily made from one.'],
  rate_limited: [429, 'Too many requests.'],
  internal_error: [500, 'An unexpected error happened. It is in the log under the request id.'],
  auth_login_internal_error: [500, 'Login failed for a reason of ours.'],
  auth_refresh_internal_error: [500, 'Refreshing failed for a reason of ours.'],
  auth_webauthn_internal_error: [500, 'Passkey login failed for a reason of ours.'],
  auth_sso_internal_error: [500, 'Single sign-on failed for a reason of ours.'],
  auth_api_key_internal_error: [500, 'The API key could not be made for a reason of ours.'],
  auth_sso_provider_error: [502, 'The identity provider answered with an error.'],
  service_unavailable: [503, 'A part of the service is unavailable. Try again.'],
  auth_login_db_error: [503, 'Login is unavailable: the database does not answer.'],
  auth_refresh_db_error: [503, 'Refreshing is unavailable: the database does not answer.'],
  auth_webauthn_db_error: [503, 'Passkey login is unavailable: the database does not answer.'],
  auth_sso_db_error: [503, 'Single sign-on is unavailable: the database does not answer.'],
  timeout: [504, 'The request took too long.'],
  auth_sso_provider_timeout: [504, 'The identity provider did not answer in time.'],
} as const satisfies Record<string, readonly [number, string]>;

export type ErrorCode = keyof typeof errorTable;

/**
 * An error with a code of the table. `headers` reach the HTTP answer; `database` tells neighbours, and no client, that a database
 * is behind it. Survives the bus, where class and cause are lost.
 */
export class StrataError extends Errors.MoleculerError {
  constructor(
    code: ErrorCode,
    message?: string,
    details: {
      errors?: Problem[];
      headers?: Record<string, string>;
      database?: true;
      cause?: unknown;
    } = {},
  ) {
    const { cause, ...data } = details;
    super(message ?? errorTable[code][1], errorTable[code][0], code, data);
    this.name = 'StrataError';
    if (cause !== undefined) this.cause = cause;
  }
}

export const invalid = (
  errors: Problem[],
  message = 'The request is not valid; errors says where.',
): StrataError => new StrataError('validation_failed', message, { errors });

/** The code of any error: our own by `type`, Moleculer's by what it means to a client, everything else is internal. */
export function codeOf(error: unknown): ErrorCode {
  const { type, name, code } = (error ?? {}) as { type?: unknown; name?: unknown; code?: unknown };
  if (typeof type === 'string' && Object.hasOwn(errorTable, type)) return type as ErrorCode;
  if (name === 'RequestTimeoutError' || name === 'RequestSkippedError') return 'timeout';
  if (typeof name === 'string' && unavailable.has(name)) return 'service_unavailable';
  if (code === 'service_unavailable') return 'service_unavailable';
  return 'internal_error';
}
const unavailable = new Set([
  'ServiceNotFoundError',
  'ServiceNotAvailableError',
  'RequestRejectedError',
  'QueueIsFullError',
  'BrokerDisconnectedError',
  'GracefulStopTimeoutError',
  'MaxCallLevelError',
]);

/** Is a part of the system missing, so that the last known good value may stand in? */
export const isOutage = (error: unknown): boolean => {
  const code = codeOf(error);
  return code === 'service_unavailable' || code === 'timeout' || code.endsWith('_db_error');
};

export interface ErrorAnswer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: {
    detail: { status: 'error'; code: ErrorCode; message: string };
    request_id: string;
    errors?: Problem[];
  };
}

/** The envelope. A message of ours is shown; that of an unexpected error stays in the log. */
export function toAnswer(error: unknown, requestId: string): ErrorAnswer {
  const code = codeOf(error);
  const [status, fallback] = errorTable[code];
  const own = error as {
    type?: unknown;
    message?: string;
    data?: { errors?: Problem[]; headers?: Record<string, string> };
  };
  const ours = own?.type === code;
  const errors = ours ? own.data?.errors : undefined;
  return {
    status,
    headers: {
      ...(status === 401 ? { 'www-authenticate': 'Bearer realm="strata"' } : {}),
      ...(status === 503 ? { 'retry-after': '2' } : {}),
      ...(ours ? own.data?.headers : {}),
    },
    body: {
      detail: { status: 'error', code, message: ours && own.message ? own.message : fallback },
      request_id: requestId,
      ...(status === 422 ? { errors: errors ?? [] } : {}),
    },
  };
}
