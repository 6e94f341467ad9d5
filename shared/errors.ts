/** Strata's error type, and the one place that turns an error into an answer. */
import { Errors } from 'moleculer';
import { errorTable, type ErrorCode } from './contracts/error-codes.ts';

export interface Problem {
  readonly path: string;
  readonly message: string;
}

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

/** How many problems one answer names. */
export const maxProblems = 50;
/** Longer paths are cut to the deepest place around the problem whose path fits. */
export const maxPathLength = 500;
const maxMessageLength = 500;
/** All problems of one answer together, in bytes of JSON. */
const maxProblemBytes = 60 * 1024;

/** The first problems, as many as one answer names; whoever sent ten thousand mistakes gets no megabytes back. */
export function boundedProblems(problems: Iterable<Problem>): Problem[] {
  const bounded: Problem[] = [];
  let bytes = 0;
  for (const { path, message } of problems) {
    if (bounded.length === maxProblems) break;
    const problem = { path: boundedPath(path), message: message.slice(0, maxMessageLength) };
    bytes += Buffer.byteLength(JSON.stringify(problem));
    if (bytes > maxProblemBytes) break;
    bounded.push(problem);
  }
  return bounded;
}

function boundedPath(path: string): string {
  if (path.length <= maxPathLength) return path;
  return path.slice(0, path.lastIndexOf('/', maxPathLength));
}

/** A 422 that names what is wrong, within the bounds of one answer. */
export const invalid = (
  problems: Iterable<Problem>,
  message = 'The request is not valid; errors says where.',
): StrataError =>
  new StrataError('validation_failed', message, { errors: boundedProblems(problems) });

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

/** The HTTP status that a code is answered with. */
export const statusOf = (code: ErrorCode): number => errorTable[code][0];

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
