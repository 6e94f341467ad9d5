/** Why the gateway gave no answer that the client can use. */
export class StrataError extends Error {
  override readonly name = 'StrataError';
  /** The gateway's code, such as `tenant_mismatch`; `unreachable`, `timeout`, `outdated` and `closed` are the client's own. */
  readonly code: string;
  /** Of HTTP; undefined where there was no answer. */
  readonly status: number | undefined;
  readonly requestId: string | undefined;
  /** How long the gateway asks to be left alone. */
  readonly retryAfterMs: number | undefined;

  constructor(
    code: string,
    message: string,
    answer: { status?: number; requestId?: string; retryAfterMs?: number; cause?: unknown } = {},
  ) {
    super(message, 'cause' in answer ? { cause: answer.cause } : undefined);
    this.code = code;
    this.status = answer.status;
    this.requestId = answer.requestId;
    this.retryAfterMs = answer.retryAfterMs;
  }
}

/** What the gateway said of an error, where it was Strata's gateway that said it. */
interface Envelope {
  readonly detail?: { readonly code?: unknown; readonly message?: unknown };
  readonly request_id?: string;
}

export function errorOf(response: Response, text: string): StrataError {
  const { status, headers } = response;
  const { detail, request_id: requestId } = envelopeOf(text);
  const code = typeof detail?.code === 'string' ? detail.code : `http_${status}`;
  const said = typeof detail?.message === 'string' ? `: ${detail.message}` : '';
  const retryAfterMs = retryAfter(headers.get('retry-after'));
  return new StrataError(code, `Strata answered ${status} ${code}${said}`, {
    status,
    ...(requestId === undefined ? {} : { requestId }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

function envelopeOf(text: string): Envelope {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === 'object' && body !== null ? body : {};
  } catch {
    return {};
  }
}

const longestRetryAfterMs = 3_600_000;

/** In seconds or as a date (RFC 9110, 10.2.3). */
export function retryAfter(text: string | null, now = Date.now()): number | undefined {
  if (text === null) return undefined;
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), longestRetryAfterMs);
}

/** Whether asking again can't help: the gateway understood, and says no. What a proxy says while no gateway is there is no such answer. */
export function isFinal(error: unknown): boolean {
  if (!(error instanceof StrataError)) return false;
  return [400, 403, 404, 422].includes(error.status ?? 0) && error.code !== `http_${error.status}`;
}
