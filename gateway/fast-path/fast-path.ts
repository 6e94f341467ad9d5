/**
 * Answers reads that were answered before, ahead of Fastify, whose routing, hooks and reply cost
 * more than all that has to be done for such a read.
 *
 * A route teaches the fast path what a URL stands for: the contract, its parameters and the cache
 * entry that answered them. When the URL is asked for again, the caller is found from memory, and
 * `cachedAnswer` decides as it does for every other cached read. The bytes are made once per cached
 * result. Whatever is not plainly a repetition goes to Fastify: another form of the answer, an
 * unknown credential, an entry that is no longer fresh, a refusal. A rate limit counts what is
 * answered here, and what is over it is refused here: Fastify would count it again.
 *
 * With `FAST_PATH=false` Fastify answers everything, in the same way.
 */
import { LRUCache } from 'lru-cache';
import type {
  IncomingMessage,
  OutgoingHttpHeaders,
  RequestListener,
  ServerResponse,
} from 'node:http';
import type { CachedEntry } from '../../shared/coherence/entry.ts';
import { cachedAnswer } from '../../shared/contract-runtime/local-cache.ts';
import type { Contract } from '../../shared/contracts/contract.ts';
import type { LiveSettings } from '../../shared/settings/live-settings.ts';
import type { Settings } from '../../shared/settings/settings.ts';
import type { Authenticator } from '../http/authenticate.ts';
import { refuseRequest } from '../http/error-responses.ts';
import {
  limitHeaders,
  tooManyRequests,
  type RateLimit,
  type LimitState,
} from '../http/rate-limit.ts';
import type { RecordResponse } from '../http/request-log.ts';
import {
  isRepeatable,
  isUnchanged,
  repeatableResponse,
  type RepeatableResponse,
} from '../http/responses.ts';
import { commonHeaders } from '../http/security-headers.ts';

/** What a URL stands for, whoever asks. */
export interface KnownRead {
  readonly contract: Contract;
  /** As metrics and log name it, with placeholders. */
  readonly route: string;
  /** From path and query, which are all that the URL can say. */
  readonly params: Readonly<Record<string, unknown>>;
  readonly entry: CachedEntry<unknown>;
  /**
   * Of the page that asks, which the CORS plug-in allowed; undefined where the request has no
   * Origin header.
   */
  readonly origin: string | undefined;
  /** What Fastify's hooks set on the response to a request of this origin. */
  readonly hookHeaders: OutgoingHttpHeaders;
  /** Those that the hooks went by. */
  readonly settings: Settings | undefined;
}

export interface FastPath {
  readonly learn: (url: string, read: KnownRead) => void;
  /** Answers the request, or has Fastify answer it. */
  readonly answer: (
    request: IncomingMessage,
    response: ServerResponse,
    fastify: RequestListener,
  ) => void;
}

export interface FastPathOptions {
  readonly authenticator: Authenticator;
  readonly settings: LiveSettings;
  readonly rateLimit: RateLimit;
  readonly requestIdOf: (request: IncomingMessage) => string;
  readonly record: RecordResponse;
}

/** Bounds what surrounds the entries here; their values are in the cache's own, bounded memory. */
const maxBytes = 8 * 1024 * 1024;
/** Estimated size of a `KnownRead` beside its URL. */
const readBytes = 300;

export function createFastPath({
  authenticator,
  settings,
  rateLimit,
  requestIdOf,
  record,
}: FastPathOptions): FastPath {
  const reads = new LRUCache<string, KnownRead>({
    maxSize: maxBytes,
    sizeCalculation: (_read, url) => readBytes + url.length,
  });

  /** By the cached value, which is one object for all callers, and kept as long as that. */
  let prepared = new WeakMap<object, Prepared>();
  /** What was learned under these holds headers that a reload may have changed. */
  let learnedUnder = settings.current;

  function forgetAfterReload(): void {
    if (learnedUnder === settings.current) return;
    learnedUnder = settings.current;
    reads.clear();
    prepared = new WeakMap();
  }

  function preparedFor(read: KnownRead, result: object): Prepared {
    const existing = prepared.get(result);
    if (existing) return existing;
    const made = prepare(read, result);
    prepared.set(result, made);
    return made;
  }

  function headsFor(read: KnownRead, { response, body, heads }: Prepared): Heads {
    const allowed = String(read.hookHeaders[allowedOrigin] ?? '');
    const existing = heads.get(allowed);
    if (existing) return existing;
    const made = headsOf(read, response, body);
    heads.set(allowed, made);
    return made;
  }

  /** The result that may be sent as it is; undefined where Fastify has to answer. */
  function resultFor(
    read: KnownRead,
    { headers }: IncomingMessage,
    now: number,
  ): object | undefined {
    const { contract, params, entry } = read;
    // A parameter in a header is none that the URL stands for.
    for (const name in contract.rest?.headers) {
      if (headers[name] !== undefined) return undefined;
    }
    if (!isRepeatable(contract.response, headers)) return undefined;
    const identity = authenticator.known(headers, now);
    if (!identity) return undefined;
    try {
      const result = cachedAnswer(contract, params, identity.caller, entry, now);
      return typeof result === 'object' && result !== null ? result : undefined;
    } catch {
      // Fastify refuses it again and puts the refusal into words.
      return undefined;
    }
  }

  /** The result, or that the client has it. Returns the status. */
  function send(
    read: KnownRead,
    known: Prepared,
    limitState: LimitState | undefined,
    requestId: string,
    { headers }: IncomingMessage,
    response: ServerResponse,
  ): 200 | 304 {
    const status = isUnchanged(known.response, headers) ? 304 : 200;
    const head = [...headsFor(read, known)[status], 'x-request-id', requestId];
    if (limitState) head.push(...inTurn(limitHeaders(limitState)));
    response.writeHead(status, head);
    // Of an answer to HEAD, Node sends no body; 304 has none.
    response.end(status === 304 ? undefined : known.body);
    return status;
  }

  /** Whether it answers the request; where it does not, nothing was sent. */
  function tryAnswer(request: IncomingMessage, response: ServerResponse): boolean {
    const { method, url, headers } = request;
    if (!settings.current.fast_path || (method !== 'GET' && method !== 'HEAD')) return false;
    const began = performance.now();
    forgetAfterReload();
    // A URL's place in the order of eviction is when it was learned; renewing it costs more than
    // learning it again.
    const read = reads.peek(nameOf(url!, headers.origin));
    const result = read && resultFor(read, request, began);
    if (!result) return false;
    const known = preparedFor(read, result);
    const answer = (limitState?: LimitState): void => {
      const requestId = requestIdOf(request);
      const status = limitState?.isOver
        ? refuse(read, limitState, requestId, response)
        : send(read, known, limitState, requestId, request, response);
      record(requestId, method, read.route, status, performance.now() - began);
    };
    if (rateLimit.isSet()) void rateLimit.count(request).then(answer);
    else answer();
    return true;
  }

  return {
    learn(url, read) {
      forgetAfterReload();
      const isOfOthers = read.origin !== undefined && !(allowedOrigin in read.hookHeaders);
      const isOfNow = read.settings === settings.current;
      if (!isOfOthers && isOfNow) reads.set(nameOf(url, read.origin), read);
    },
    answer(request, response, fastify) {
      if (!tryAnswer(request, response)) fastify(request, response);
    },
  };
}

/** Over the limit, as Fastify refuses it. Returns the status. */
function refuse(
  { hookHeaders }: KnownRead,
  limitState: LimitState,
  requestId: string,
  response: ServerResponse,
): 429 {
  const headers = { ...hookHeaders, ...limitHeaders(limitState) };
  refuseRequest(tooManyRequests(limitState), requestId, response, headers);
  return 429;
}

const allowedOrigin = 'access-control-allow-origin';

/** Pages of other origins get other headers. A URL has no space in it. */
const nameOf = (url: string, origin: string | undefined): string =>
  origin === undefined ? url : `${url} ${origin}`;

/**
 * Of each answer of a result, without those that are each answer's own: names and values in turn,
 * which Node writes in less time than the members of an object.
 */
type Heads = Readonly<Record<200 | 304, readonly string[]>>;

const inTurn = (headers: OutgoingHttpHeaders): string[] =>
  Object.entries(headers).flatMap(([name, value]) => [name, String(value)]);

const isOfEachAnswer = (name: string): boolean =>
  name === 'x-request-id' || name.startsWith('x-ratelimit-');

/**
 * In characters. A longer text is kept as bytes, which all connections share: of a text, Node makes
 * bytes for each, and keeps them until its client has taken them. A shorter one costs less as text,
 * which Node sends in one piece with the head.
 */
const longestText = 64 * 1024;

interface Prepared {
  readonly response: Omit<RepeatableResponse, 'text'>;
  readonly body: string | Buffer;
  /** By the origin that they allow: those of CORS_ORIGINS, `*`, or none. */
  readonly heads: Map<string, Heads>;
}

function prepare({ contract }: KnownRead, result: object): Prepared {
  const { text, ...response } = repeatableResponse(contract.response, result);
  const body = text.length > longestText ? Buffer.from(text) : text;
  return { response, body, heads: new Map() };
}

function headsOf(
  { hookHeaders }: KnownRead,
  { headers }: Prepared['response'],
  body: string | Buffer,
): Heads {
  const all = Object.entries({ ...commonHeaders(''), ...hookHeaders, ...headers });
  const both = Object.fromEntries(all.filter(([name]) => !isOfEachAnswer(name)));
  const ofBody = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  return { 200: inTurn({ ...both, ...ofBody }), 304: inTurn(both) };
}
