/** Clients that stall, drip or stay silent, and what becomes of their connections. */
import { once } from 'node:events';
import { request, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';

const head = (length: number): string =>
  `POST /auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;

/** What a client sends, and what it continues sending, a piece at a time, for ever. */
export interface SlowClient {
  readonly sends: string;
  readonly drips?: string;
  /** Whether it hears of its fate: one that has been answered already does not. */
  readonly isAnswered: boolean;
}
export const slowClients: Readonly<Record<string, SlowClient>> = {
  'a connection without a request': { sends: '', isAnswered: true },
  'half the headers': { sends: 'POST /auth/login HTTP/1.1\r\nHost: x\r\nX-Half', isAnswered: true },
  'headers that drip': { sends: 'GET /healthz HTTP/1.1\r\nX-Long: ', drips: 'a', isAnswered: true },
  'a body that stalls': { sends: `${head(100)}{"email"`, isAnswered: true },
  'a body that drips': { sends: `${head(100_000)}{"email":"`, drips: 'a', isAnswered: true },
  'a request, and nothing after its answer': {
    sends: 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n',
    isAnswered: false,
  },
  'an answered request whose body stalls': {
    sends: 'PUT /config/global/x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{',
    isAnswered: false,
  },
};

export interface Connection {
  readonly received: () => string;
  /** Milliseconds from the connection to its end; undefined while it is open. */
  readonly endedAfter: () => number | undefined;
}

/** Half-open: it never closes its own side, whatever the server does. */
export function open({ sends, drips }: SlowClient, port: number, host: string): Connection {
  const began = performance.now();
  let received = '';
  let ended: number | undefined;
  const socket: Socket = connect({ port, host, allowHalfOpen: true });
  socket.on('data', (chunk: Buffer) => {
    received += chunk.toString();
  });
  const end = (): void => {
    ended ??= performance.now() - began;
    clearInterval(drip);
  };
  const drip = setInterval(() => {
    if (drips !== undefined && socket.writable) socket.write(drips);
  }, 500);
  socket.on('end', end);
  socket.on('error', end);
  socket.on('close', end);
  if (sends !== '') socket.write(sends);
  return { received: () => received, endedAfter: () => ended };
}

/** The last answer that the connection was given. */
export function lastAnswer(received: string): { status: number; code: string | undefined } {
  const start = received.lastIndexOf('HTTP/1.1 ');
  const status = Number(received.slice(start + 9, start + 12));
  const text = received.slice(received.indexOf('\r\n\r\n', start) + 4);
  const { detail } = JSON.parse(text) as { detail?: { code: string } };
  return { status, code: detail?.code };
}

/** The answer to a request that has come before `during`, and whose body comes after it. */
export async function sendAround(
  url: string,
  { method, headers, body }: { method: string; headers: OutgoingHttpHeaders; body: object },
  during: () => Promise<unknown>,
): Promise<{ status: number | undefined; text: string }> {
  const payload = JSON.stringify(body);
  const sent = request(url, {
    method,
    headers: {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(payload),
      // Node says that it continues when it hands the request on.
      expect: '100-continue',
      ...headers,
    },
  });
  sent.flushHeaders();
  await once(sent, 'continue');
  await during();
  sent.end(payload);
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: answer.statusCode, text: await text(answer) };
}
