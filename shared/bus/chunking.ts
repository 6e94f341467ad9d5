/**
 * Messages that are larger than NATS carries. It takes at most its `max_payload`, 1 MiB unless
 * configured, and a document may be nearly as large, its history and audit event larger. A longer
 * message is sent in chunks, which one connection delivers in order.
 *
 * | Bytes of a chunk | What                                                                        |
 * |------------------|-----------------------------------------------------------------------------|
 * | 0                | 0x00, with which no whole message begins: these are JSON                    |
 * | 1–16             | the message's id, random                                                    |
 * | 17–20            | the chunk's index, from 0, as a 32-bit big-endian integer                   |
 * | 21–24            | how many chunks the message has, likewise                                   |
 * | 25–              | a chunk of the message                                                      |
 *
 * Where a chunk is lost, the others are forgotten after the request timeout, as if the message had
 * never been sent.
 */
import { randomBytes } from 'node:crypto';
import type { Middleware } from 'moleculer';
import { moleculerMiddleware, type Receive, type Send } from './moleculer-middleware.ts';

const chunkBytes = 512 * 1024;
const offsets = { id: 1, index: 17, count: 21, content: 25 } as const;

interface PartialMessage {
  readonly parts: Buffer[];
  missing: number;
  readonly expiry: NodeJS.Timeout;
}

function* chunksOf(message: Buffer): Generator<Buffer> {
  const id = randomBytes(offsets.index - offsets.id);
  const count = Math.ceil(message.length / chunkBytes);
  for (let index = 0; index < count; index += 1) {
    const head = Buffer.alloc(offsets.content);
    id.copy(head, offsets.id);
    head.writeUInt32BE(index, offsets.index);
    head.writeUInt32BE(count, offsets.count);
    const content = message.subarray(index * chunkBytes, (index + 1) * chunkBytes);
    yield Buffer.concat([head, content]);
  }
}

export function chunkingMiddleware(timeoutMs: number): Middleware {
  const partial = new Map<string, PartialMessage>();

  function expect(id: string, count: number): PartialMessage {
    const expiry = setTimeout(() => partial.delete(id), timeoutMs).unref();
    const message: PartialMessage = { parts: [], missing: count, expiry };
    partial.set(id, message);
    return message;
  }

  /** The whole message, when this was its last missing chunk. */
  function collect(chunk: Buffer): Buffer | undefined {
    const id = chunk.toString('hex', offsets.id, offsets.index);
    const message = partial.get(id) ?? expect(id, chunk.readUInt32BE(offsets.count));
    message.parts[chunk.readUInt32BE(offsets.index)] = chunk.subarray(offsets.content);
    message.missing -= 1;
    if (message.missing > 0) return undefined;
    clearTimeout(message.expiry);
    partial.delete(id);
    return Buffer.concat(message.parts);
  }

  const send =
    (next: Send): Send =>
    (topic, message, meta) =>
      message.length <= chunkBytes
        ? next(topic, message, meta)
        : Promise.all([...chunksOf(message)].map((chunk) => next(topic, chunk, meta)));

  const receive =
    (next: Receive): Receive =>
    (command, data, socket) => {
      const isChunk = data[0] === 0;
      const message = isChunk ? collect(data) : data;
      return message && next(command, message, socket);
    };

  return moleculerMiddleware({
    name: 'Chunking',
    transporterSend: send,
    transporterReceive: receive,
  });
}
