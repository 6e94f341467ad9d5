/**
 * One request to an address that a tenant chose: guarded, not redirected, not retried, ended by an
 * absolute deadline. Webhooks, chat and sign-in providers are called by it.
 */
import { Agent as HttpAgent, type IncomingHttpHeaders } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { Duplex } from 'node:stream';
import type { Got, PlainResponse } from 'got';
import type { Settings } from '../settings/settings.ts';
import type { Guard } from './guard.ts';
import { OutgoingError, type OutgoingReason } from './outgoing-error.ts';

export interface OutgoingRequest {
  readonly url: string;
  readonly method: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  /**
   * For the whole: name, connection, TLS, headers and body. Otherwise HTTP_CLIENT_TIMEOUT_SECONDS.
   */
  readonly timeoutMs?: number;
  /** How much of the response's body is read; 4 KiB by default. */
  readonly maxResponseBytes?: number;
  readonly signal?: AbortSignal;
}

export interface OutgoingResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /**
   * Why the body is not whole; null where it is. The status holds either way: whoever sent headers
   * has answered.
   */
  readonly cut: OutgoingReason | null;
  readonly durationMs: number;
}

export interface HttpClient {
  /** Rejects with OutgoingError only, and only where there is no response. */
  readonly send: (request: OutgoingRequest) => Promise<OutgoingResponse>;
}

type ClientSettings = Pick<
  Settings,
  'http_client_timeout_seconds' | 'http_client_connect_timeout_seconds'
>;

/**
 * No connection outlives its request and no TLS session is resumed: none is shared between tenants,
 * and each has its address and its certificate checked.
 */
const agent = {
  http: new HttpAgent({ keepAlive: false }),
  https: new HttpsAgent({ keepAlive: false, maxCachedSessions: 0 }),
};
const defaultResponseBytes = 4096;

export function createHttpClient(
  guard: Pick<Guard, 'parse' | 'lookup'>,
  settings: () => ClientSettings,
): HttpClient {
  function open(got: Got, url: URL, request: OutgoingRequest) {
    const connectMs = settings().http_client_connect_timeout_seconds * 1000;
    return got.stream(url, {
      method: request.method,
      headers: { 'user-agent': 'Strata', ...request.headers },
      agent,
      // got waits for a body to be written into a POST stream that was given none.
      body: request.body ?? (request.method === 'GET' ? undefined : ''),
      dnsLookup: guard.lookup,
      signal: request.signal,
      timeout: { lookup: connectMs, connect: connectMs, secureConnect: connectMs },
      followRedirect: false,
      throwHttpErrors: false,
      decompress: false,
      https: { rejectUnauthorized: true },
    });
  }

  return {
    async send(request) {
      const started = performance.now();
      const url = parseUrl(guard, request.url);
      const limit = request.maxResponseBytes ?? defaultResponseBytes;
      // With the first request: most processes send none.
      const { got } = await import('got');
      const stream = open(got, url, request);
      const deadline = setTimeout(
        () => stream.destroy(new OutgoingError('timed_out', 'did not answer in time')),
        request.timeoutMs ?? settings().http_client_timeout_seconds * 1000,
      );
      const received: { response?: PlainResponse } = {};
      stream.once('response', (response: PlainResponse) => {
        received.response = response;
      });
      // got listens to this, so that Node leaves the connection open for another protocol.
      stream.once('upgrade', (_response: unknown, socket: Duplex) => {
        socket.destroy();
        stream.destroy(new OutgoingError('answer_invalid', 'did not answer with HTTP'));
      });
      const chunks: Buffer[] = [];
      let cut: OutgoingReason | null = null;
      try {
        cut = await readUpTo(limit, stream, chunks);
      } catch (error) {
        cut = reasonOf(error);
        if (!received.response) throw describedError(error, cut, url.origin);
      } finally {
        clearTimeout(deadline);
        stream.destroy();
      }
      if (!received.response)
        throw new OutgoingError('answer_invalid', `${url.origin} did not answer with HTTP`);
      const { statusCode: status, headers } = received.response;
      const body = Buffer.concat(chunks).subarray(0, limit);
      return { status, headers, body, cut, durationMs: Math.round(performance.now() - started) };
    },
  };
}

/**
 * Reads a body into `chunks`. Answers why it stopped before the end, or null at the end; rejects
 * where the stream fails.
 */
async function readUpTo(
  limit: number,
  stream: AsyncIterable<Buffer>,
  chunks: Buffer[],
): Promise<OutgoingReason | null> {
  let size = 0;
  for await (const chunk of stream) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > limit) return 'answer_too_large';
  }
  return null;
}

function parseUrl(guard: Pick<Guard, 'parse'>, text: string): URL {
  try {
    return guard.parse(text);
  } catch (error) {
    if (!(error instanceof OutgoingError)) throw error;
    const address = URL.parse(text)?.origin ?? 'The address';
    throw new OutgoingError(error.reason, `${address} ${error.message}`);
  }
}

/** What is read of an error of got or Node: any object may have these. */
interface Failure {
  readonly name?: unknown;
  readonly code?: unknown;
  readonly cause?: unknown;
}
const failureOf = (error: unknown): Failure =>
  typeof error === 'object' && error !== null ? error : {};
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

const tlsCode =
  /^(ERR_TLS|ERR_SSL|EPROTO|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERROR_IN_CERT|INVALID_CA|INVALID_PURPOSE|HOSTNAME_MISMATCH)/;
const invalidRequestCode = /^ERR_(INVALID_|HTTP_INVALID_|UNESCAPED_|HTTP_HEADERS_)/;
const timeoutNames = new Set(['TimeoutError', 'AbortError']);

function reasonOf(error: unknown): OutgoingReason {
  const { name, code: rawCode, cause } = failureOf(error);
  const code = textOf(rawCode);
  if (cause instanceof OutgoingError) return cause.reason;
  if (timeoutNames.has(textOf(name)) || code === 'ETIMEDOUT') return 'timed_out';
  if (tlsCode.test(code)) return 'tls_failed';
  // Codes of Node's HTTP parser.
  if (code.startsWith('HPE_')) return 'answer_invalid';
  return invalidRequestCode.test(code) ? 'request_invalid' : 'connection_failed';
}

const explanations: Readonly<Partial<Record<OutgoingReason, string>>> = {
  timed_out: 'did not answer in time',
  tls_failed: 'has no TLS that can be trusted',
  answer_invalid: 'did not answer with HTTP',
  request_invalid: 'cannot be sent this request',
  connection_failed: 'cannot be reached, or hung up',
};

/**
 * got's errors carry the request with its URL and headers, so neither they nor their messages go
 * further.
 */
function describedError(error: unknown, reason: OutgoingReason, origin: string): OutgoingError {
  const { code: rawCode, cause } = failureOf(error);
  if (cause instanceof OutgoingError)
    return new OutgoingError(reason, `${origin} ${cause.message}`);
  const code = textOf(rawCode);
  const shownCode = code === '' ? '' : ` (${code})`;
  return new OutgoingError(reason, `${origin} ${explanations[reason]}${shownCode}`);
}
