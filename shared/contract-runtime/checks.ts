/** What a call and its answer are checked by, and the errors that callers get. */
import type { Logger } from 'pino';
import type { Contract } from '../contracts/contract.ts';
import {
  isDatabaseFailure,
  isDatabaseOutage,
  isRefusedData,
  mayBeCommitted,
} from '../database/failures.ts';
import { codeOf, invalid, StrataError, unknownOutcome } from '../errors.ts';
import { problemsOf } from '../schema/validate.ts';

type Params = Readonly<Record<string, unknown>>;

/**
 * Throws 422 with every problem. A problem in the body is named by its path from the body's root,
 * any other by its parameter.
 */
export function checkParams(contract: Contract, params: Params): void {
  const problems = problemsOf(contract.params, params);
  if (problems.length === 0) return;
  throw invalid(
    problems.map(({ path, message }) => ({
      path: path.replace(/^\/body(?=\/|$)/, ''),
      message,
    })),
  );
}

/**
 * The result schema is an allow-list: an answer that does not match it, perhaps because a secret
 * slipped in, is never given.
 */
export function checkResult(contract: Contract, name: string, value: unknown): void {
  const problems = problemsOf(contract.result, value);
  if (problems.length === 0) return;
  const list = problems.map(({ path, message }) => `${path} ${message}`).join('; ');
  throw new Error(`${name} answered against its contract: ${list}`);
}

/**
 * The error as callers get it. Errors lose their class on the bus, so they get their code here; the
 * cause goes to the log of the node that saw it.
 */
export function translate(error: unknown, log: Logger): unknown {
  if (codeOf(error) !== 'internal_error') return error;
  if (isDatabaseOutage(error)) {
    log.error({ err: error }, 'the database does not answer');
    const message = mayBeCommitted(error)
      ? unknownOutcome
      : 'The database does not answer. Try again.';
    return new StrataError('service_unavailable', message, { database: true, cause: error });
  }
  // A neighbour has translated and logged it already.
  if ((error as { type?: string }).type === 'internal_error') return error;
  if (isRefusedData(error)) {
    log.warn({ err: error }, 'the database refused a value that the contract let through');
    return invalid([], 'A value cannot be stored.');
  }
  log.error({ err: error }, 'unexpected error');
  return new StrataError('internal_error', undefined, {
    ...(isDatabaseFailure(error) ? { database: true } : {}),
    cause: error,
  });
}
