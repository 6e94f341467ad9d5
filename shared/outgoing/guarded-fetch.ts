import type { HttpClient, OutgoingRequest } from './http-client.ts';
import { OutgoingError } from './outgoing-error.ts';

export type GuardedFetch = (url: string, init?: RequestInit) => Promise<Response>;

const maxAnswerBytes = 1024 * 1024;
const bodiless = new Set([204, 205, 304]);

/** `fetch` for libraries that take one, such as openid-client's customFetch: answers up to 1 MiB, redirects as they are. */
export function createGuardedFetch(client: HttpClient): GuardedFetch {
  return async (url, init) => {
    // The address is for the guard alone; Request makes bytes and content type of whatever body it is given.
    const request = new Request('https://localhost', init);
    const sent = Buffer.from(await request.arrayBuffer());
    const { status, headers, body, cut } = await client.send({
      url,
      method: request.method as OutgoingRequest['method'],
      headers: Object.fromEntries(request.headers),
      maxAnswerBytes,
      signal: request.signal,
      ...(sent.length > 0 ? { body: sent } : {}),
    });
    if (cut) throw new OutgoingError(cut, `${new URL(url).origin} did not answer whole`);
    if (status < 200 || status > 599)
      throw new OutgoingError(
        'answer_invalid',
        `${new URL(url).origin} answered with status ${status}`,
      );
    const pairs = Object.entries(headers).flatMap(([name, value]) =>
      [value ?? []].flat().map((each): [string, string] => [name, each]),
    );
    return new Response(bodiless.has(status) ? null : new Uint8Array(body), {
      status,
      headers: pairs,
    });
  };
}
