/** What a database error means, by SQLSTATE class and socket code, never by message. */
import {
  QueryFailedError,
  QueryRunnerAlreadyReleasedError,
  QueryRunnerProviderAlreadyReleasedError,
} from 'typeorm';

interface Coded {
  code?: unknown;
  driverError?: { code?: unknown };
}
const codeOf = (error: unknown): string => {
  const { code, driverError } = (error ?? {}) as Coded;
  const found = driverError?.code ?? code;
  return typeof found === 'string' ? found : '';
};

const socketCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
]);
// pg reports a lost or exhausted connection without a code; these are its own fixed texts (pg and pg-pool 8).
const clientTexts =
  /^(Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error|Cannot use a pool after calling end|Client was closed|Connection ended unexpectedly)/;

/**
 * The database is away, stalled or out of resources, so that the same request may succeed later.
 * SQLSTATE 08 connection, 53 resources, 57 operator intervention (shutdown, statement timeout), 58 system, XX corruption,
 * 28 credentials, 25006 read-only after a failover, 55P03 lock timeout, 40 serialization and deadlock.
 */
export function isDatabaseOutage(error: unknown): boolean {
  const code = codeOf(error);
  if (
    socketCodes.has(code) ||
    /^(08|28|40|53|57|58|XX)/.test(code) ||
    code === '25006' ||
    code === '55P03' ||
    code === '3D000'
  )
    return true;
  // The connection went between two queries of a transaction, which is rolled back.
  if (
    error instanceof QueryRunnerAlreadyReleasedError ||
    error instanceof QueryRunnerProviderAlreadyReleasedError
  )
    return true;
  return error instanceof Error && clientTexts.test(error.message);
}

/** Any failure that came from the database, an outage or not. */
export const isDatabaseFailure = (error: unknown): boolean =>
  error instanceof QueryFailedError || isDatabaseOutage(error);

export const isUniqueViolation = (error: unknown): boolean => codeOf(error) === '23505';

/** SQLSTATE class 22, data exception: the value that was sent has no place in the column. */
export const isRefusedData = (error: unknown): boolean => codeOf(error).startsWith('22');
