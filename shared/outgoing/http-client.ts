/** One request to an address that a tenant chose: guarded, not redirected, not retried, ended by an absolute deadline. */
import { Agent as HttpAgent, type IncomingHttpHeaders } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import got, { type PlainResponse } from 'got';
import type { Settings } from '../settings.ts';
import type { Guard } from './guard.ts';
import { OutgoingError, type OutgoingReason } from './outgoing-error.ts';

export interface OutgoingRequest {
  readonly url: string;
  readonly method: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  /** For the whole: name, connection, TLS, headers and body. */
  readonly timeoutMs?: number;
  /** For each of name, connection and TLS. */
  readonly connectTimeoutMs?: number;
  /** How much of the answer's body is read. */
  readonly maxAnswerBytes?: number;
  readonly signal?: AbortSignal;
}

export interface OutgoingAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Why the body is not whole. The status stands all the same: the receiver has answered once its headers are here. */
  readonly cut: OutgoingReason | null;
  readonly durationMs: number;
}

/** Rejects with OutgoingError only. */
export interface HttpClient {
  readonly send: (request: OutgoingRequest) => Promise<OutgoingAnswer>;
}

type ClientSettings = Pick<
  Settings,
  'http_client_timeout_seconds' | 'http_client_connect_timeout_seconds'
>;

/** No connection outlives its request, so none is shared between tenants and each is checked; no TLS session is resumed. */
const agent = {
  http: new HttpAgent({ keepAlive: false }),
  https: new HttpsAgent({ keepAlive: false, maxCachedSessions: 0 }),
};

export function createHttpClient(guard: Guard, settings: () => ClientSettings): HttpClient {
  return {
    async send(request) {
      const started = performance.now();
      const url = parsed(guard, request.url);
      const limit = request.maxAnswerBytes ?? 4096;
      const connect =
        request.connectTimeoutMs ?? settings().http_client_connect_timeout_seconds * 1000;
      const stream = got.stream(url, {
        method: request.method,
        headers: { 'user-agent': 'Strata', ...request.headers },
        agent,
        // A stream without a body waits for one to be written.
        body: request.body ?? (request.method === 'GET' ? undefined : ''),
        dnsLookup: guard.lookup,
        signal: request.signal,
        timeout: { lookup: connect, connect, secureConnect: connect },
        followRedirect: false,
        throwHttpErrors: false,
        decompress: false,
        https: { rejectUnauthorized: true },
      });
      const deadline = setTimeout(
        () => stream.destroy(new OutgoingError('timed_out', 'did not answer in time')),
        request.timeoutMs ?? settings().http_client_timeout_seconds * 1000,
      );
      const chunks: Buffer[] = [];
      let answer: PlainResponse | undefined;
      let size = 0;
      stream.once('response', (response: PlainResponse) => {
        answer = response;
      });
      const end = (cut: OutgoingReason | null): OutgoingAnswer => ({
        status: answer!.statusCode,
        headers: answer!.headers,
        body: Buffer.concat(chunks).subarray(0, limit),
        cut,
        durationMs: Math.round(performance.now() - started),
      });
      try {
        for await (const chunk of stream as AsyncIterable<Buffer>) {
          chunks.push(chunk);
          size += chunk.length;
          if (size > limit) return end('answer_too_large');
        }
        return end(null);
      } catch (error) {
        const reason = reasonOf(error);
        if (answer) return end(reason);
        throw described(error, reason, url.origin);
      } finally {
        clearTimeout(deadline);
        stream.destroy();
      }
    },
  };
}

function parsed(guard: Guard, text: string): URL {
  try {
    return guard.parse(text);
  } catch (error) {
    const { reason, message } = error as OutgoingError;
    throw new OutgoingError(reason, `${URL.parse(text)?.origin ?? 'The address'} ${message}`);
  }
}

interface Failure {
  readonly name?: string;
  readonly code?: string;
  readonly event?: string;
  readonly cause?: unknown;
}

const tls =
  /^(ERR_TLS|ERR_SSL|EPROTO|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERROR_IN_CERT|INVALID_CA|INVALID_PURPOSE|HOSTNAME_MISMATCH)/;
const invalidRequest = /^ERR_(INVALID_|HTTP_INVALID_|UNESCAPED_|HTTP_HEADERS_)/;

function reasonOf(error: unknown): OutgoingReason {
  const { name = '', code = '', cause } = error as Failure;
  if (cause instanceof OutgoingError) return cause.reason;
  if (name === 'TimeoutError' || name === 'AbortError' || code === 'ETIMEDOUT') return 'timed_out';
  if (tls.test(code)) return 'tls_failed';
  if (code.startsWith('HPE_')) return 'answer_invalid';
  return invalidRequest.test(code) ? 'request_invalid' : 'connection_failed';
}

/** got's errors carry the request, with URL and headers: neither they nor their messages go further. */
function described(error: unknown, reason: OutgoingReason, origin: string): OutgoingError {
  const { code, cause } = error as Failure;
  if (cause instanceof OutgoingError)
    return new OutgoingError(reason, `${origin} ${cause.message}`);
  const says: Partial<Record<OutgoingReason, string>> = {
    timed_out: 'did not answer in time',
    tls_failed: 'has no TLS that can be trusted',
    answer_invalid: 'did not answer with HTTP',
    request_invalid: 'cannot be sent this request',
    connection_failed: 'cannot be reached, or hung up',
  };
  return new OutgoingError(reason, `${origin} ${says[reason]}${code ? ` (${code})` : ''}`);
}
