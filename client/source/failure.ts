/** Why the gateway gave no answer that the client can use. */
import { isObject, objectIn } from './json.ts';

export interface FieldError {
  readonly path: string;
  readonly message: string;
}

export class StrataError extends Error {
  override readonly name = 'StrataError';
  /**
   * The gateway's code, such as `tenant_mismatch`; `unreachable`, `timeout`, `unexpected_answer`,
   * `closed`, `not_started` and `slot_lost` are the client's own.
   */
  readonly code: string;
  /** Of HTTP; undefined where there was no answer. */
  readonly status: number | undefined;
  readonly requestId: string | undefined;
  /** How long the gateway asks to be left alone. */
  readonly retryAfterMs: number | undefined;
  /** What is wrong with the request, by JSON Pointer, where the gateway says it. */
  readonly errors: readonly FieldError[];

  constructor(
    code: string,
    message: string,
    more: {
      status?: number;
      requestId?: string;
      retryAfterMs?: number;
      errors?: readonly FieldError[];
      cause?: unknown;
    } = {},
  ) {
    super(message, more);
    this.code = code;
    this.status = more.status;
    this.requestId = more.requestId;
    this.retryAfterMs = more.retryAfterMs;
    this.errors = more.errors ?? [];
  }

  /**
   * Whether asking again can't help: the gateway understood, and says no. What a proxy says while
   * no gateway is there is no such answer.
   */
  get isFinal(): boolean {
    const { status = 0, code } = this;
    return [400, 403, 404, 422].includes(status) && code !== unnamed(status);
  }

  /**
   * The same before there were any values: a token that was never taken is a wrong one. Later it
   * may be an old one, and is asked for again.
   */
  get isFinalAtStart(): boolean {
    return this.isFinal || (this.status === 401 && this.code !== unnamed(401));
  }
}

/** The code of an answer that has none. */
const unnamed = (status: number): string => `http_${status}`;

export const closedError = (): StrataError => new StrataError('closed', 'The client was closed.');

/** What the gateway said of an error, where it was Strata's gateway that said it. */
export function errorOf({ status, headers }: Response, text: string): StrataError {
  const { detail, request_id: requestId, errors } = objectIn(text) ?? {};
  const { code = unnamed(status), message = 'no reason given' } = isObject(detail) ? detail : {};
  return new StrataError(String(code), `Strata answered ${status} ${code}: ${message}`, {
    status,
    requestId: typeof requestId === 'string' ? requestId : undefined,
    errors: Array.isArray(errors) ? errors.filter(isFieldError) : [],
    retryAfterMs: retryAfter(headers.get('retry-after')),
  });
}

const isFieldError = (value: unknown): value is FieldError =>
  isObject(value) && typeof value.path === 'string' && typeof value.message === 'string';

const longestRetryAfterMs = 3_600_000;

/** In seconds or as a date (RFC 9110, 10.2.3). */
export function retryAfter(text: string | null, now = Date.now()): number | undefined {
  if (text === null) return undefined;
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), longestRetryAfterMs);
}
