/**
 * Strata's error type, and the one place that turns any error into an HTTP response. The codes are
 * in `contracts/error-codes.ts`.
 */
import { Errors } from 'moleculer';
import { errorTable, type ErrorCode } from './contracts/error-codes.ts';
import type { ManagedField } from './contracts/managed-fields.ts';
import { maxPathLength, maxProblems } from './schema/problem-bounds.ts';

/**
 * What is wrong at one place of a request; `path` is a JSON Pointer (RFC 6901), into the body where
 * it has one.
 */
export interface Problem {
  readonly path: string;
  readonly message: string;
}

/** Where a change set is opened, and with which body. */
export interface ProposedChangeSet {
  readonly path: string;
  readonly body: {
    readonly title: string;
    readonly reason: string;
    readonly items: readonly Readonly<Record<string, unknown>>[];
    /** Where it is not to be applied with its last approval. */
    readonly apply?: 'manual';
    readonly managed_by?: string;
    readonly take_over?: string;
    readonly until?: string;
  };
}

/** What an error carries besides code and message. It crosses the bus, the cause does not. */
export interface ErrorData {
  /** Answered with 422. */
  readonly errors?: Problem[];
  /** Sent with the HTTP response. */
  readonly headers?: Record<string, string>;
  /** Answered with `change_approval_required`: the change set that would do it. */
  readonly change_set?: ProposedChangeSet;
  /** Answered with `field_managed`: the fields that it may not change, and whose they are. */
  readonly managed_fields?: readonly ManagedField[];
  /** The message for callers who may not list the names that the other one has. */
  readonly unnamed?: string;
  /** A database is behind it. Known to neighbours on the bus, and to no client. */
  readonly database?: true;
}

/**
 * An error with a code of the table. On the bus it loses its class, so it is recognised by its
 * code, which Moleculer calls `type`.
 */
export class StrataError extends Errors.MoleculerError {
  constructor(code: ErrorCode, message?: string, details: ErrorData & { cause?: unknown } = {}) {
    const { cause, ...data } = details;
    const { status, message: usual } = errorTable[code];
    // A refusal's stack is shown to nobody, and finding it is most of what a refusal costs, which
    // whoever floods asks for thousands of times a second.
    const { stackTraceLimit } = Error;
    if (status < 500) Error.stackTraceLimit = 0;
    super(message ?? usual, status, code, data);
    Error.stackTraceLimit = stackTraceLimit;
    this.name = 'StrataError';
    if (cause !== undefined) this.cause = cause;
  }
}

/** Of a write of which nobody knows whether it was made. */
export const unknownOutcome =
  'No answer came, so the request may have been carried out. Check before you repeat it, or send If-Match.';

/**
 * A call got no answer: no node was there that could give one, or it went away, or took too long.
 */
export class NoAnswerError extends StrataError {}

const maxMessageLength = 500;
/** All problems of one answer together, in bytes of JSON. */
const maxProblemBytes = 60 * 1024;

/**
 * The first problems, as many as one answer names; whoever sent ten thousand mistakes gets no
 * megabytes back.
 */
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
export function invalid(problems: Iterable<Problem>, message?: string): StrataError {
  const errors = boundedProblems(problems);
  return new StrataError('validation_failed', message ?? fieldsInvalid(errors), { errors });
}

/** More are in `errors`; a sentence of many pointers is not read. */
const mostFieldsNamed = 3;

function fieldsInvalid(problems: readonly Problem[]): string {
  const fields = [...new Set(problems.map(({ path }) => path))].filter((path) => path !== '');
  if (fields.length === 0) return errorTable.validation_failed.message;
  const others = fields.length - mostFieldsNamed;
  const named = fields.slice(0, mostFieldsNamed).join(', ');
  return `Some fields are not valid: ${named}${others > 0 ? ` and ${others} more` : ''}.`;
}

/** Moleculer's errors, by name, that mean that nobody is there to answer. */
const noAnswer = new Set([
  'ServiceNotFoundError',
  'ServiceNotAvailableError',
  'RequestRejectedError',
  'QueueIsFullError',
  'BrokerDisconnectedError',
  'GracefulStopTimeoutError',
  'MaxCallLevelError',
]);

/**
 * Whether it has a code of the table, as errors of ours keep on the bus, where they lose their
 * class.
 */
export const isCoded = (error: unknown): error is { readonly type: ErrorCode } => {
  const type = (error as { type?: unknown } | null | undefined)?.type;
  return typeof type === 'string' && Object.hasOwn(errorTable, type);
};

/**
 * The code of any error: our own by `type`, Moleculer's by what it means to a client; everything
 * else is `internal_error`.
 */
export function codeOf(error: unknown): ErrorCode {
  if (isCoded(error)) return error.type;
  const { name } = (error ?? {}) as { name?: unknown };
  if (name === 'RequestTimeoutError' || name === 'RequestSkippedError') return 'timeout';
  if (typeof name === 'string' && noAnswer.has(name)) return 'service_unavailable';
  return 'internal_error';
}

/** Null where the answer is that there is no such thing. */
export async function ifFound<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (error) {
    if (codeOf(error) === 'not_found') return null;
    throw error;
  }
}

/** Whether a part of the system is missing, so that the last known good value may be a fallback. */
export function isOutage(error: unknown): boolean {
  const code = codeOf(error);
  return code === 'service_unavailable' || code === 'timeout' || code.endsWith('_db_error');
}

/**
 * A neighbour whose database failed says so in its error's `data`, which is all that survives the
 * bus.
 */
export const saysDatabase = (error: unknown): boolean =>
  (error as { data?: { database?: unknown } } | undefined)?.data?.database === true;

/** The HTTP status that a code is answered with. */
export const statusOf = (code: ErrorCode): number => errorTable[code].status;

export interface ErrorResponse {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: {
    detail: { status: 'error'; code: ErrorCode; message: string };
    request_id: string;
    errors?: Problem[];
    change_set?: ProposedChangeSet;
    managed_fields?: readonly ManagedField[];
  };
}

/**
 * The response to any error. The message of an error of ours is shown; that of an unexpected one
 * stays in the log.
 */
export function errorResponse(error: unknown, requestId: string): ErrorResponse {
  const code = codeOf(error);
  const { status, message: fallback } = errorTable[code];
  const { message, errors, headers, change_set, managed_fields } = shownPartsOf(error, code);
  return {
    status,
    headers: {
      ...(status === 401 && { 'www-authenticate': 'Bearer realm="strata"' }),
      ...(status === 503 && { 'retry-after': '2' }),
      ...headers,
    },
    body: {
      detail: { status: 'error', code, message: message || fallback },
      request_id: requestId,
      ...(status === 422 && { errors: errors ?? [] }),
      ...(change_set && { change_set }),
      ...(managed_fields && { managed_fields }),
    },
  };
}

/** Nothing of an error that is not ours, whose code was only found for it. */
function shownPartsOf(error: unknown, code: ErrorCode): ErrorData & { message?: string } {
  const { type, message, data } = (error ?? {}) as {
    type?: unknown;
    message?: string;
    data?: ErrorData;
  };
  return type === code ? { ...data, ...(message !== undefined && { message }) } : {};
}
