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
 * Where a value is no longer fresh and many ask for it at once, the first goes to Fastify, which
 * asks for it. The others wait for that and are answered here: on their own way through Fastify
 * they would share its answer as well, at three times the cost.
 */
import { LRUCache } from 'lru-cache';
import type {
  IncomingMessage,
  OutgoingHttpHeaders,
  RequestListener,
  ServerResponse,
} from 'node:http';
import type { CachedEntry } from '../../shared/coherence/entry.ts';
import { cachedAnswer } from '../../shared/coherence/local-cache.ts';
import type { Contract } from '../../shared/contracts/contract.ts';
import type { LiveSettings } from '../../shared/settings/live-settings.ts';
import type { Settings } from '../../shared/settings/settings.ts';
import type { Authenticator } from '../http/authenticate.ts';
import { refuseRequest } from '../http/error-responses.ts';
import { createWaiters } from '../streams/waiters.ts';
import {
  remainingHeader,
  resetHeader,
  standingHeaders,
  tooManyRequests,
  type RateLimit,
  type Standing,
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
  /** A request that Fastify was given has asked for the value of its URL, with whatever outcome. */
  readonly asked: (url: string, origin: string | undefined) => void;
  /** Answers the request, or has Fastify answer it; either at once or in a moment. */
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
/** Nobody waits longer for what another asks for, who may have been refused on the way there. */
const patienceMs = 100;

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

  /** Of requests that find one of them outdated, by name. */
  const waiters = createWaiters(patienceMs);

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

  function headsFor(read: KnownRead, { response, heads }: Prepared): Heads {
    const allowed = String(read.hookHeaders[allowedOrigin] ?? '');
    const existing = heads.get(allowed);
    if (existing) return existing;
    const made = headsOf(read, response);
    heads.set(allowed, made);
    return made;
  }

  /**
   * The result that may be sent as it is; `outdated` where it only has to be asked for; undefined
   * where Fastify has to answer.
   */
  function resultFor(
    read: KnownRead,
    { headers }: IncomingMessage,
    now: number,
  ): object | 'outdated' | undefined {
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
      if (result === undefined) return 'outdated';
      return typeof result === 'object' && result !== null ? result : undefined;
    } catch {
      // Fastify refuses it again and puts the refusal into words.
      return undefined;
    }
  }

  /** Over the limit, as Fastify refuses it. Returns the status. */
  function refuse(
    { hookHeaders }: KnownRead,
    standing: Standing,
    requestId: string,
    response: ServerResponse,
  ): 429 {
    const headers = { ...hookHeaders, ...standingHeaders(standing) };
    refuseRequest(tooManyRequests(standing), requestId, response, headers);
    return 429;
  }

  /** The result, or that the client has it. Returns the status. */
  function send(
    read: KnownRead,
    known: Prepared,
    standing: Standing | undefined,
    requestId: string,
    { headers }: IncomingMessage,
    response: ServerResponse,
  ): 200 | 304 {
    const status = isUnchanged(known.response, headers) ? 304 : 200;
    const head = headsFor(read, known)[status];
    // Shared by all answers of this result. That is safe because writeHead copies it at once.
    setOwn(head, requestId, standing);
    response.writeHead(status, head);
    // Of an answer to HEAD, Node sends no body; 304 has none.
    response.end(status === 304 ? undefined : known.response.text);
    return status;
  }

  /**
   * Answers the request if it can, which began at `began` (performance.now()). Where it returns
   * anything else, nothing was sent.
   */
  function tryAnswer(
    request: IncomingMessage,
    response: ServerResponse,
    began: number,
    now = began,
  ): 'answered' | 'outdated' | 'unknown' {
    const { method, url, headers } = request;
    if (method !== 'GET' && method !== 'HEAD') return 'unknown';
    forgetAfterReload();
    // A URL's place in the order of eviction is when it was learned; renewing it costs more than
    // learning it again.
    const read = reads.peek(nameOf(url!, headers.origin));
    if (!read) return 'unknown';
    const result = resultFor(read, request, now);
    if (result === undefined) return 'unknown';
    if (result === 'outdated') return result;
    const known = preparedFor(read, result);
    const answer = (standing?: Standing): void => {
      const requestId = requestIdOf(request);
      const status = standing?.isOver
        ? refuse(read, standing, requestId, response)
        : send(read, known, standing, requestId, request, response);
      record(requestId, method, read.route, status, performance.now() - began);
    };
    if (rateLimit.isSet()) void rateLimit.count(request).then(answer);
    else answer();
    return 'answered';
  }

  return {
    learn(url, read) {
      forgetAfterReload();
      const isOfOthers = read.origin !== undefined && !(allowedOrigin in read.hookHeaders);
      const isOfNow = read.settings === settings.current;
      if (!isOfOthers && isOfNow) reads.set(nameOf(url, read.origin), read);
    },
    asked: (url, origin) => waiters.release(nameOf(url, origin)),
    answer(request, response, fastify) {
      const began = performance.now();
      const outcome = tryAnswer(request, response, began);
      if (outcome === 'answered') return;
      const tryAgain = (): void => {
        if (tryAnswer(request, response, began, performance.now()) !== 'answered')
          fastify(request, response);
      };
      const follows =
        outcome === 'outdated' &&
        waiters.follow(nameOf(request.url!, request.headers.origin), tryAgain);
      if (!follows) fastify(request, response);
    },
  };
}

const allowedOrigin = 'access-control-allow-origin';

/** Pages of other origins get other headers. A URL has no space in it. */
const nameOf = (url: string, origin: string | undefined): string =>
  origin === undefined ? url : `${url} ${origin}`;

/**
 * Header names and values in turn, as they go to `writeHead`. Those of each answer's own are the
 * last.
 */
type Heads = Readonly<Record<200 | 304, string[]>>;

interface Prepared {
  readonly response: RepeatableResponse;
  /** By the origin that they allow: those of CORS_ORIGINS, `*`, or none. */
  readonly heads: Map<string, Heads>;
}

const prepare = ({ contract }: KnownRead, result: object): Prepared => ({
  response: repeatableResponse(contract.response, result),
  heads: new Map(),
});

function headsOf({ hookHeaders }: KnownRead, { headers, text }: RepeatableResponse): Heads {
  const both = { ...commonHeaders(''), ...hookHeaders, ...headers };
  const body = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
  return { 200: inTurn({ ...both, ...body }), 304: inTurn(both) };
}

function inTurn({
  [remainingHeader]: remaining,
  [resetHeader]: _reset,
  'x-request-id': _id,
  ...lasting
}: OutgoingHttpHeaders): string[] {
  const isLimited = remaining !== undefined;
  const own = {
    ...(isLimited && { [remainingHeader]: '', [resetHeader]: '' }),
    'x-request-id': '',
  };
  return Object.entries({ ...lasting, ...own }).flatMap(([name, value]) => [name, String(value)]);
}

function setOwn(head: string[], requestId: string, standing: Standing | undefined): void {
  const last = head.length - 1;
  head[last] = requestId;
  if (!standing) return;
  head[last - 2] = String(standing.resetSeconds);
  head[last - 4] = String(standing.remaining);
}
