/**
 * Reads that were answered from memory before, ahead of Fastify: its routing, hooks and reply cost more than all that has to be done
 * for them. The access of whoever asks is checked each time, and only what still stands is served. Everything else goes the long way.
 */
import { LRUCache } from 'lru-cache';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { checkAccess } from '../shared/access.ts';
import { deliver } from '../shared/cluster/local-cache.ts';
import type { LiveSettings } from '../shared/live-settings.ts';
import type { CachedEntry } from '../shared/cluster/coherence/entry.ts';
import type { Contract } from '../shared/contracts/contract.ts';
import { textOf } from './responses.ts';
import type { Authenticator } from './authenticate.ts';
import { jsonHeaders } from './security-headers.ts';

/** What a URL stands for, whoever asks. */
export interface Read {
  readonly contract: Contract;
  readonly route: string;
  readonly address: Record<string, unknown>;
  readonly held: CachedEntry<unknown>;
  /** What plugins set for requests without an origin. */
  readonly plugged: Readonly<Record<string, unknown>>;
}

export interface FastPath {
  readonly learn: (url: string, read: Read) => void;
  /** Whether it has been answered. */
  readonly answer: (request: IncomingMessage, response: ServerResponse) => boolean;
}

/** Is told of each answer that was sent, for log and metrics, and of how many milliseconds it took. */
export type Answered = (
  requestId: string,
  method: string,
  route: string | undefined,
  status: number,
  ms: number,
  streamed?: boolean,
) => void;

export interface FastPathOptions {
  readonly authenticator: Authenticator;
  readonly settings: LiveSettings;
  readonly requestIdOf: (request: IncomingMessage) => string;
  readonly answered: Answered;
}

/** `head`: names and values by turns, the last of which is the request id of each answer. */
interface Ready {
  readonly head: string[];
  readonly text: string;
}

export function createFastPath({
  authenticator,
  settings,
  requestIdOf,
  answered,
}: FastPathOptions): FastPath {
  // Values stay in the cache's own memory; what is bounded here is what surrounds them.
  const reads = new LRUCache<string, Read>({
    maxSize: 8 * 1024 * 1024,
    sizeCalculation: (_read, url) => 300 + url.length,
  });
  /** Goes with the cached result that it is made of. */
  const made = new WeakMap<object, Ready>();
  /** Then the plugin has to count every request. */
  const limited = (): boolean => settings.current.rate_limit_per_minute > 0;
  function ready({ contract, plugged }: Read, result: object): Ready {
    const known = made.get(result);
    if (known) return known;
    const { headers, text } = textOf(contract, result);
    const all = {
      ...jsonHeaders,
      ...plugged,
      ...headers,
      'content-length': Buffer.byteLength(text),
      'x-request-id': '',
    };
    const answer = {
      head: Object.entries(all).flatMap(([name, value]) => [name, String(value)]),
      text,
    };
    made.set(result, answer);
    return answer;
  }

  /** What may be sent as it is; undefined where the request asks for another form of it, or is not allowed to have it. */
  function resultFor(
    { contract, address, held }: Read,
    { headers }: IncomingMessage,
    now: number,
  ): object | undefined {
    for (const name in contract.rest?.headers) if (headers[name] !== undefined) return undefined;
    if (headers['if-none-match'] !== undefined || headers.origin !== undefined) return undefined;
    if (contract.response === 'list' && headers.accept?.includes('application/x-ndjson'))
      return undefined;
    if (!held.isFresh(now)) return undefined;
    held.recordHit(now);
    const identity = authenticator.known(headers, now);
    if (!identity) return undefined;
    try {
      checkAccess(contract, identity.caller, address);
      const result = deliver(contract, held.value, identity.caller, false);
      return typeof result === 'object' && result !== null ? result : undefined;
    } catch {
      // Refused the long way, where refusals are put into words.
      return undefined;
    }
  }

  return {
    learn(url, read) {
      if (!limited()) reads.set(url, read);
    },
    answer(request, response) {
      const { method, url } = request;
      const read = method === 'GET' || method === 'HEAD' ? reads.peek(url!) : undefined;
      if (!read || limited()) return false;
      const began = performance.now();
      const result = resultFor(read, request, began);
      if (result === undefined) return false;
      const { head, text } = ready(read, result);
      const requestId = (head[head.length - 1] = requestIdOf(request));
      response.writeHead(200, head);
      response.end(text);
      answered(requestId, method!, read.route, 200, performance.now() - began);
      return true;
    },
  };
}
