/** A real receiver of notices on a free port of loopback. */
import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';

export interface Received {
  /** performance.now() when the body was complete. */
  readonly at: number;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // eslint-disable-next-line typescript/no-explicit-any -- tests look into bodies of any shape
  readonly body: { type: string; id: string; timestamp: string; data: Record<string, any> };
}
export interface Receiver {
  readonly url: string;
  readonly received: Received[];
  /** The first `count` requests that fit, once they are there. */
  readonly wait: (fits: (received: Received) => boolean, count?: number) => Promise<Received[]>;
  readonly close: () => Promise<void>;
}

/**
 * `answer` is given the number of the request, from 0; 204 by default. It speaks https where there
 * is a key.
 */
export async function startReceiver(
  answer: (n: number, response: ServerResponse) => void = (_n, response) => {
    response.writeHead(204).end();
  },
  tls?: { readonly key: Buffer; readonly cert: Buffer },
  port = 0,
): Promise<Receiver> {
  const received: Received[] = [];
  /** Wakes everybody who waits, after each request. */
  const waiting = new Set<() => void>();
  const receive: RequestListener = (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      received.push({
        at: performance.now(),
        path: request.url!,
        headers: request.headers,
        text,
        body: request.headers['content-type']?.startsWith('application/x-ndjson')
          ? undefined
          : JSON.parse(text),
      });
      answer(received.length - 1, response);
      for (const wake of waiting) wake();
      waiting.clear();
    });
  };
  const server = tls ? createTlsServer(tls, receive) : createServer(receive);
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}/hook?key=canary-in-url`,
    received,
    async wait(fits, count = 1) {
      for (;;) {
        const found = received.filter(fits);
        if (found.length >= count) return found.slice(0, count);
        await new Promise<void>((resolve) => {
          waiting.add(resolve);
        });
      }
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
