/** Requests to a gateway, with the caller's credential. */
import { errorOf, StrataError } from './failure.ts';

const timeoutMs = 10_000;

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
  readonly #base: string;
  readonly #token: Token;
  /** The last one, until it is refused. */
  #given: Promise<string> | undefined;

  constructor(url: string, tenant: string, token: Token) {
    this.#base = `${url.replace(/\/+$/, '')}/tenants/${encodeURIComponent(tenant)}`;
    this.#token = token;
  }

  async json(path: string, asked: Asked): Promise<Answer> {
    const within = limited(asked.signal, asked.timeoutMs ?? timeoutMs);
    try {
      const response = await this.#fetch(path, { ...asked, signal: within.signal });
      const { status, headers } = response;
      const text = await response.text();
      return { status, headers, body: text === '' ? undefined : JSON.parse(text) };
    } catch (error) {
      throw asFailure(error, asked.signal);
    } finally {
      within.done();
    }
  }

  /** An answer whose body is still to come. Only its beginning is waited for no longer than usual. */
  async stream(path: string, asked: Asked): Promise<Response> {
    const begun = limited(asked.signal, timeoutMs);
    try {
      return await this.#fetch(path, { ...asked, signal: begun.signal });
    } catch (error) {
      throw asFailure(error, asked.signal);
    } finally {
      begun.keep();
    }
  }

  /** Throws what is no success. A token that is refused is asked for again, once in a request. */
  async #fetch(path: string, asked: Asked): Promise<Response> {
    const given = this.#credential();
    const token = await unlessAborted(given, asked.signal);
    const response = await this.#send(path, asked, token);
    if (response.ok || response.status === 304) return response;
    const error = errorOf(response, await response.text());
    if (response.status !== 401) throw error;
    if (this.#given === given) this.#given = undefined;
    const renewed = await unlessAborted(this.#credential(), asked.signal);
    if (renewed === token) {
      this.#given = undefined;
      throw error;
    }
    const second = await this.#send(path, asked, renewed);
    if (second.ok || second.status === 304) return second;
    if (second.status === 401) this.#given = undefined;
    throw errorOf(second, await second.text());
  }

  #credential(): Promise<string> {
    if (this.#given) return this.#given;
    const token = this.#token;
    const given = (async () => (typeof token === 'function' ? token() : token))();
    this.#given = given;
    given.catch(() => {
      if (this.#given === given) this.#given = undefined;
    });
    return given;
  }

  #send(path: string, { method = 'GET', headers, body, signal }: Asked, token: string) {
    return fetch(this.#base + path, {
      method,
      headers: {
        accept: 'application/json',
        ...headers,
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      // The client keeps what it knows by itself, and a credential goes nowhere else.
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
      signal,
    });
  }
}

/** A signal that ends with another or after a time. `done` ends it; `keep` takes the time away only. */
function limited(signal: AbortSignal, ms: number) {
  const controller = new AbortController();
  const end = (): void => controller.abort();
  const timer = setTimeout(end, ms);
  if (signal.aborted) end();
  signal.addEventListener('abort', end);
  return {
    signal: controller.signal,
    keep: () => clearTimeout(timer),
    done(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
    },
  };
}

function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const give = (): void => reject(new DOMException('aborted', 'AbortError'));
    if (signal.aborted) give();
    signal.addEventListener('abort', give);
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', give));
  });
}

function asFailure(error: unknown, signal: AbortSignal): StrataError {
  if (error instanceof StrataError) return error;
  if (signal.aborted) return new StrataError('closed', 'The client was closed.', { cause: error });
  if (error instanceof Error && error.name === 'AbortError')
    return new StrataError('timeout', 'Strata did not answer in time.', { cause: error });
  const why = error instanceof Error ? error.message : String(error);
  const { cause } = error instanceof Error ? error : {};
  const reason = cause instanceof Error ? `${why}: ${cause.message}` : why;
  return new StrataError('unreachable', `Strata is not reached: ${reason}`, { cause: error });
}
