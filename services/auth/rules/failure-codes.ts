/**
 * Turns failures of Strata's own into the codes that an action's contract names for them
 * (`failures`), so that operators can alert on each way of signing in. What an action refuses in
 * its own words stays as it is.
 */
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import type { FailureCodes } from '../../../shared/contracts/contract.ts';
import type { ErrorCode } from '../../../shared/contracts/error-codes.ts';
import { contractOf } from '../../../shared/contracts/index.ts';
import { isDatabaseFailure } from '../../../shared/database/failures.ts';
import {
  codeOf,
  NoAnswerError,
  saysDatabase,
  statusOf,
  StrataError,
} from '../../../shared/errors.ts';

/** 5xx codes that tell an operator more than the action's own would. */
const specificCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'service_unavailable',
  'auth_sso_provider_error',
  'auth_sso_provider_timeout',
]);

/**
 * A neighbour out of reach counts as a database failure: all that sign-in asks of neighbours is
 * what their databases hold.
 */
function isUnreachable(error: unknown): boolean {
  if (error instanceof StrataError && !(error instanceof NoAnswerError)) return false;
  const code = codeOf(error);
  return code === 'service_unavailable' || code === 'timeout';
}

/**
 * The error to answer with: the same object where it is an explicit answer, else one of `codes`
 * with the error as its cause.
 */
export function classifyFailure(codes: FailureCodes, error: unknown): unknown {
  if (isDatabaseFailure(error) || saysDatabase(error) || isUnreachable(error))
    return new StrataError(codes.database, undefined, { cause: error });
  const code = codeOf(error);
  if (statusOf(code) < 500 || specificCodes.has(code)) return error;
  return new StrataError(codes.unexpected, undefined, { cause: error });
}

type AnyHandler = (params: never, request: Request) => Promise<unknown>;

const classified =
  (codes: FailureCodes, handler: AnyHandler): AnyHandler =>
  async (params, request) => {
    try {
      return await handler(params, request);
    } catch (error) {
      const answer = classifyFailure(codes, error);
      if (answer !== error)
        request.log.error(
          { err: error, code: codeOf(answer) },
          'sign-in failed because of an internal error',
        );
      throw answer;
    }
  };

/**
 * The handlers, each with the failure codes of its contract where it has some. The cause is logged
 * under the request id.
 */
export function withFailureCodes<H extends Handlers>(handlers: H): H {
  const wrapped = Object.entries(handlers).map(([action, handler]) => {
    const codes = contractOf(action)?.failures;
    return [action, codes ? classified(codes, handler) : handler];
  });
  // Wrapping keeps each handler's type, but TypeScript cannot follow types from entry to entry.
  return Object.fromEntries(wrapped) as H;
}
