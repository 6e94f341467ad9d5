/** Requests to a gateway about one tenant, with the caller's credential. */
import { whenAborted } from './clock.ts';
import { closedError, errorOf, StrataError } from './failure.ts';

const usualTimeoutMs = 10_000;

export interface Asked {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
  readonly timeoutMs?: number;
  /** Ends the request, and the body of its answer, for as long as that comes. */
  readonly signal: AbortSignal;
}
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** Of JSON; undefined for 304. */
  readonly body: unknown;
}

export type Token = string | (() => string | Promise<string>);

export class Gateway {
  /** Of what belongs to the tenant. */
  readonly base: string;
  readonly #token: Token;
  /** The last one, until it is refused. */
  #given: Promise<string> | undefined;

  constructor(url: string, tenant: string, token: Token) {
    this.base = `${url}/tenants/${encodeURIComponent(tenant)}`;
    this.#token = token;
  }

  json(path: string, asked: Asked): Promise<Answer> {
    return this.#ask(path, asked, async (response) => {
      const { status, headers } = response;
      const text = await response.text();
      return { status, headers, body: text === '' ? undefined : JSON.parse(text) };
    });
  }

  /**
   * An answer whose body is still to come. Only its beginning is waited for no longer than usual.
   */
  stream(path: string, asked: Asked): Promise<Response> {
    return this.#ask(path, asked);
  }

  /**
   * What `take` makes of the answer. Without it the answer itself, whose body ends with the signal.
   */
  #ask(path: string, asked: Asked): Promise<Response>;
  #ask<T>(path: string, asked: Asked, take: (response: Response) => Promise<T>): Promise<T>;
  #ask<T>(
    path: string,
    { signal, timeoutMs = usualTimeoutMs, ...asked }: Asked,
    take?: (response: Response) => Promise<T>,
  ): Promise<T | Response> {
    return new Promise((resolve, reject) => {
      const ending = new AbortController();
      const end = (error: StrataError): void => {
        ending.abort();
        reject(error);
      };
      const timer = setTimeout(
        () => end(new StrataError('timeout', 'Strata did not answer in time.')),
        timeoutMs,
      );
      const forget = whenAborted(signal, () => end(closedError()));
      this.#fetch(path, { ...asked, signal: ending.signal })
        .then<T | Response>((response) => (take ? take(response) : response))
        .finally(() => {
          clearTimeout(timer);
          if (take) forget();
        })
        .then(resolve, (error: unknown) => reject(failureOf(error)));
    });
  }

  /** Throws what is no success. A token that is refused is asked for again, once in a request. */
  async #fetch(path: string, asked: Asked): Promise<Response> {
    let refused: { readonly token: string; readonly error: StrataError } | undefined;
    for (;;) {
      const given = this.#credential();
      // One that never comes is not what later requests wait for.
      const forget = whenAborted(asked.signal, () => this.#forget(given));
      const token = await given.finally(forget);
      if (token === refused?.token) {
        this.#forget(given);
        throw refused.error;
      }
      const response = await this.#send(path, asked, token);
      if (response.ok || response.status === 304) return response;
      const error = errorOf(response, await response.text());
      if (error.status !== 401) throw error;
      this.#forget(given);
      if (refused) throw error;
      refused = { token, error };
    }
  }

  #credential(): Promise<string> {
    if (this.#given) return this.#given;
    const token = this.#token;
    const given = (async () => (typeof token === 'function' ? token() : token))();
    this.#given = given;
    given.catch(() => this.#forget(given));
    return given;
  }

  /** What others have asked for meanwhile stays. */
  #forget(given: Promise<string>): void {
    if (this.#given === given) this.#given = undefined;
  }

  #send(path: string, { method = 'GET', headers, body, signal }: Asked, token: string) {
    const isWritten = body !== undefined;
    return fetch(this.base + path, {
      method,
      headers: {
        accept: 'application/json',
        ...headers,
        authorization: `Bearer ${token}`,
        ...(isWritten && { 'content-type': 'application/json' }),
      },
      ...(isWritten && { body: JSON.stringify(body) }),
      // The client keeps what it knows by itself, and a credential goes nowhere else.
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
      signal,
    });
  }
}

function failureOf(error: unknown): StrataError {
  if (error instanceof StrataError) return error;
  // Whoever gives tokens may throw anything.
  const { message = String(error), cause } = Object(error) as Partial<Error>;
  const reason = cause instanceof Error ? `: ${cause.message}` : '';
  return new StrataError('unreachable', `Strata is not reached: ${message}${reason}`, {
    cause: error,
  });
}
