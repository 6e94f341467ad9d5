import type { Handler, Request } from '../../../shared/broker/request.ts';
import { isDatabaseFailure } from '../../../shared/database/failures.ts';
import { codeOf, errorTable, StrataError, type ErrorCode } from '../../../shared/errors.ts';

/** route × failure → code. */
export const failureCodes = {
  'auth.login': { database: 'auth_login_db_error', unexpected: 'auth_login_internal_error' },
  'auth.login.sso': { database: 'auth_sso_db_error', unexpected: 'auth_sso_internal_error' },
  'auth.refresh': { database: 'auth_refresh_db_error', unexpected: 'auth_refresh_internal_error' },
  'auth.webauthn.login.verify': { database: 'auth_webauthn_db_error', unexpected: 'auth_webauthn_internal_error' },
} as const satisfies Record<string, { database: ErrorCode; unexpected: ErrorCode }>;
type Route = keyof typeof failureCodes;

/** 5xx codes that say more than the route's own. */
const telling: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['service_unavailable', 'auth_sso_provider_error', 'auth_sso_provider_timeout']);

/** An answer of this service stays. A neighbour out of reach is one whose database this route needs. */
export function classify(route: Route, error: unknown): StrataError {
  if (error instanceof StrataError && (errorTable[codeOf(error)][0] < 500 || telling.has(codeOf(error)))) return error;
  const code = codeOf(error);
  if (code !== 'internal_error' && errorTable[code][0] < 500) return error as StrataError;
  const database = isDatabaseFailure(error) || code === 'service_unavailable' || code === 'timeout';
  return new StrataError(failureCodes[route][database ? 'database' : 'unexpected'], undefined, { cause: error });
}

/** The handler with its route's codes; the cause goes to the log under the request id. */
export const classified = <A extends Route>(route: A, handler: Handler<A>): Handler<A> => async (params, request: Request) => {
  try {
    return await handler(params, request);
  } catch (error) {
    const answer = classify(route, error);
    if (answer !== error) request.log.error({ err: error, code: answer.type }, 'sign-in failed for a reason of ours');
    throw answer;
  }
};
