import type { HttpClient } from './http-client.ts';
import { OutgoingError } from './outgoing-error.ts';

export type GuardedFetch = (url: string, init?: RequestInit) => Promise<Response>;

const longestBody = 1024 * 1024;
/** Statuses of which a Response must not have a body. */
const bodilessStatuses = new Set([204, 205, 304]);

/**
 * `fetch` over the guarded HTTP client, for libraries that take one, such as openid-client's
 * customFetch. Redirects are responses like any other. Rejects with an OutgoingError where the body
 * is longer than 1 MiB or not whole.
 */
export const createGuardedFetch =
  (client: HttpClient): GuardedFetch =>
  async (url, init) => {
    // Request makes bytes and a content type of whatever body it is given; its own address is never
    // called.
    const request = new Request('https://localhost', init);
    const requestBody = Buffer.from(await request.arrayBuffer());
    const { status, headers, body, cut } = await client.send({
      url,
      method: methodOf(request),
      headers: Object.fromEntries(request.headers),
      maxResponseBytes: longestBody,
      signal: request.signal,
      ...(requestBody.length > 0 ? { body: requestBody } : {}),
    });
    const { origin } = new URL(url);
    if (cut) throw new OutgoingError(cut, `${origin} did not answer whole`);
    if (status < 200 || status > 599)
      throw new OutgoingError('answer_invalid', `${origin} answered with status ${status}`);
    return new Response(bodilessStatuses.has(status) ? null : new Uint8Array(body), {
      status,
      headers: headerPairs(headers),
    });
  };

function methodOf({ method }: Request): 'GET' | 'POST' {
  if (method === 'GET' || method === 'POST') return method;
  throw new OutgoingError('request_invalid', `${method} is not a method that Strata sends`);
}

/** One pair for each value of a header that came several times. */
const headerPairs = (
  headers: Readonly<Record<string, string | string[] | undefined>>,
): [name: string, value: string][] =>
  Object.entries(headers).flatMap(([name, values = []]) =>
    [values].flat().map((value): [string, string] => [name, value]),
  );
