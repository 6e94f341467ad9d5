/**
 * Many requests over a few connections, each sent without waiting for the answer before it (RFC
 * 9112, section 9.3.2).
 */
import { once } from 'node:events';
import { connect } from 'node:net';

export interface RawRequest {
  readonly method: string;
  readonly path: string;
  readonly token: string | undefined;
  readonly body: string;
}
export interface RawAnswer {
  readonly status: number;
  readonly text: string;
}

/** How many are on their way over one connection. */
const depth = 40;

/** The answers, in the order of the requests. */
export async function sendPipelined(
  url: string,
  requests: readonly RawRequest[],
): Promise<RawAnswer[]> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const answers: RawAnswer[] = [];
  let sent = 0;
  let rest = Buffer.alloc(0);
  const sendMore = (): void => {
    const next = requests.slice(sent, Math.min(requests.length, answers.length + depth));
    sent += next.length;
    if (next.length > 0) socket.write(next.map(textOf).join(''));
  };
  socket.on('data', (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk]);
    for (let answer = firstAnswer(rest); answer; answer = firstAnswer(rest)) {
      rest = rest.subarray(answer.length);
      answers.push(answer);
    }
    if (answers.length === requests.length) socket.end();
    else if (sent - answers.length <= depth / 2) sendMore();
  });
  sendMore();
  await once(socket, 'close');
  if (answers.length < requests.length)
    throw new Error(`the connection ended after ${answers.length} of ${requests.length} answers`);
  return answers;
}

function textOf({ method, path, token, body }: RawRequest): string {
  const credential = token === undefined ? '' : `Authorization: Bearer ${token}\r\n`;
  const length = Buffer.byteLength(body);
  return `${method} ${path} HTTP/1.1\r\nHost: test\r\n${credential}Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`;
}

/** The first whole answer in the bytes, and how many of them it takes. */
function firstAnswer(bytes: Buffer): (RawAnswer & { readonly length: number }) | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd < 0) return undefined;
  const head = bytes.toString('latin1', 0, headEnd);
  const size = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
  const length = headEnd + 4 + size;
  if (bytes.length < length) return undefined;
  return {
    status: Number(head.slice(9, 12)),
    text: bytes.toString('utf8', headEnd + 4, length),
    length,
  };
}
