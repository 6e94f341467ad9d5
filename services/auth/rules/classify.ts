import type { Handler, Request } from '../../../shared/cluster/request.ts';
import { isDatabaseFailure } from '../../../shared/database/failures.ts';
import { errorTable, type ErrorCode } from '../../../shared/contracts/error-codes.ts';
import { codeOf, StrataError } from '../../../shared/errors.ts';

/** route × failure → code. */
export const failureCodes = {
  'auth.api-key.create': {
    database: 'auth_api_key_internal_error',
    unexpected: 'auth_api_key_internal_error',
  },
  'auth.login': { database: 'auth_login_db_error', unexpected: 'auth_login_internal_error' },
  'auth.login.sso': { database: 'auth_sso_db_error', unexpected: 'auth_sso_internal_error' },
  'auth.refresh': { database: 'auth_refresh_db_error', unexpected: 'auth_refresh_internal_error' },
  'auth.webauthn.login.verify': {
    database: 'auth_webauthn_db_error',
    unexpected: 'auth_webauthn_internal_error',
  },
} as const satisfies Record<string, { database: ErrorCode; unexpected: ErrorCode }>;
type Route = keyof typeof failureCodes;

/** 5xx codes that say more than the route's own. */
const telling: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'service_unavailable',
  'auth_sso_provider_error',
  'auth_sso_provider_timeout',
]);

/** What a neighbour says of its own failure survives the bus in `data`; one that is out of reach is one whose database this route needs. */
const isDatabase = (error: unknown, code: ErrorCode): boolean =>
  isDatabaseFailure(error) ||
  (error as { data?: { database?: unknown } } | undefined)?.data?.database === true ||
  (!(error instanceof StrataError) && (code === 'service_unavailable' || code === 'timeout'));

/** Explicit answers stay as they are, whoever gave them. */
export function classify(route: Route, error: unknown): StrataError {
  const code = codeOf(error);
  const database = isDatabase(error, code);
  if (!database && (errorTable[code][0] < 500 || telling.has(code))) return error as StrataError;
  return new StrataError(failureCodes[route][database ? 'database' : 'unexpected'], undefined, {
    cause: error,
  });
}

/** The handler with its route's codes; the cause goes to the log under the request id. */
export const classified =
  <A extends Route>(route: A, handler: Handler<A>): Handler<A> =>
  async (params, request: Request) => {
    try {
      return await handler(params, request);
    } catch (error) {
      const answer = classify(route, error);
      if (answer !== error)
        request.log.error({ err: error, code: answer.type }, 'sign-in failed for a reason of ours');
      throw answer;
    }
  };
