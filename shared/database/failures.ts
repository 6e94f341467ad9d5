/**
 * What a database error means: by SQLSTATE, by the code of a socket error, by the name of TypeORM's
 * error, and where the client gives none of these, by its fixed text. The contract middleware turns
 * the answers into error codes.
 */

/** The SQLSTATE or socket code; empty where there is none. TypeORM wraps the driver's error. */
function codeOf(error: unknown): string {
  const { code, driverError } = (error ?? {}) as {
    code?: unknown;
    driverError?: { code?: unknown };
  };
  const found = driverError?.code ?? code;
  return typeof found === 'string' ? found : '';
}

/** PostgreSQL manual, appendix A: the first two characters of a SQLSTATE are its class. */
const outageClasses = new Set([
  '08', // connection exception
  '28', // credentials refused: they are being changed
  '40', // serialization failure, deadlock
  '53', // insufficient resources
  '57', // operator intervention: shutdown, statement timeout
  '58', // system error outside PostgreSQL
  'XX', // internal error, corruption
]);
const outageStates = new Set([
  '25006', // read-only transaction: a standby, after a failover
  '25P03', // the session had stood still within a transaction for too long: this process has
  '3D000', // the database does not exist: it is being restored
  '55P03', // lock timeout
]);
const socketCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT', // the Unix socket is not there
]);
/**
 * pg and pg-pool 8 report a connection that is lost or cannot be had without a code, in these
 * words.
 */
const clientTexts =
  /^(Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error|Cannot use a pool after calling end|Client was closed|Connection ended unexpectedly)/;

/** Names, not the classes themselves: nodes without a database do not load TypeORM for them. */
const lostConnections = new Set([
  'QueryRunnerAlreadyReleasedError',
  'QueryRunnerProviderAlreadyReleasedError',
]);
const nameOf = (error: unknown): string => (error instanceof Error ? error.name : '');

/**
 * Whether the database is away, stalled or out of resources, so that the same request may succeed
 * later.
 */
export function isDatabaseOutage(error: unknown): boolean {
  const code = codeOf(error);
  if (outageClasses.has(code.slice(0, 2)) || outageStates.has(code) || socketCodes.has(code))
    return true;
  // The connection was lost between two queries of a transaction, which is rolled back.
  if (lostConnections.has(nameOf(error))) return true;
  return error instanceof Error && clientTexts.test(error.message);
}

/** Errors of a commit that was sent. */
const ofCommits = new WeakSet<object>();

export const noteOfCommit = (error: Error): unknown => ofCommits.add(error);

/** Whether the connection was lost while PostgreSQL was asked to commit, so that it may have. */
export function mayBeCommitted(error: unknown): boolean {
  const { driverError = error } = (error ?? {}) as { driverError?: unknown };
  return ofCommits.has(driverError as object) && isDatabaseOutage(error);
}

/**
 * The statement failed because one before it in its transaction had (in_failed_sql_transaction).
 */
export const isConsequence = (error: unknown): boolean => codeOf(error) === '25P02';

/** Five digits and capital letters; those of sockets have no digit. */
const isSqlState = (code: string): boolean => /^(?=.*\d)[0-9A-Z]{5}$/.test(code);

/** Any failure that came from the database, an outage or not. */
export const isDatabaseFailure = (error: unknown): boolean =>
  nameOf(error) === 'QueryFailedError' || isSqlState(codeOf(error)) || isDatabaseOutage(error);

/** Others have changed since the transaction's snapshot what it wants to change. */
export const isSerializationFailure = (error: unknown): boolean => codeOf(error) === '40001';

export const isUniqueViolation = (error: unknown): boolean => codeOf(error) === '23505';

/** SQLSTATE class 22, data exception: the column cannot hold the value that was sent. */
export const isRefusedData = (error: unknown): boolean => codeOf(error).startsWith('22');
