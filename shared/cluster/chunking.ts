/**
 * NATS carries messages of at most its `max_payload` (1 MiB unless told), and a document may be nearly as large, its history and
 * audit event larger. What is longer than a part travels in several, which one connection delivers in order.
 *
 * A part: 0x00, which no packet of JSON begins with, 16 bytes of id, index and count as 32-bit big-endian integers, then its bytes.
 * Of a message that loses a part, the rest is forgotten after the request's time-out, as if it had not been sent.
 */
import { randomBytes } from 'node:crypto';
import type { Middleware } from 'moleculer';

const partBytes = 512 * 1024;
const headBytes = 25;

type Send = (topic: string, data: Buffer, meta: unknown) => Promise<unknown>;
type Receive = (command: string, data: Buffer, socket: unknown) => unknown;
interface Arriving {
  readonly parts: Buffer[];
  missing: number;
  readonly timer: NodeJS.Timeout;
}

function* partsOf(data: Buffer): Generator<Buffer> {
  const id = randomBytes(16);
  const count = Math.ceil(data.length / partBytes);
  for (let index = 0; index < count; index += 1) {
    const head = Buffer.alloc(headBytes);
    id.copy(head, 1);
    head.writeUInt32BE(index, 17);
    head.writeUInt32BE(count, 21);
    yield Buffer.concat([head, data.subarray(index * partBytes, (index + 1) * partBytes)]);
  }
}

export function chunkingMiddleware(timeoutMs: number): Middleware {
  const arriving = new Map<string, Arriving>();

  /** The whole message with its last part. */
  function collect(part: Buffer): Buffer | undefined {
    const id = part.toString('hex', 1, 17);
    const count = part.readUInt32BE(21);
    let message = arriving.get(id);
    if (!message) {
      const timer = setTimeout(() => arriving.delete(id), timeoutMs);
      timer.unref();
      arriving.set(id, (message = { parts: [], missing: count, timer }));
    }
    message.parts[part.readUInt32BE(17)] = part.subarray(headBytes);
    message.missing -= 1;
    if (message.missing > 0) return undefined;
    clearTimeout(message.timer);
    arriving.delete(id);
    return Buffer.concat(message.parts);
  }

  return {
    name: 'Parts',
    transporterSend:
      (next: Send): Send =>
      (topic, data, meta) =>
        data.length <= partBytes
          ? next(topic, data, meta)
          : Promise.all([...partsOf(data)].map((part) => next(topic, part, meta))),
    transporterReceive:
      (next: Receive): Receive =>
      (command, data, socket) => {
        if (data[0] !== 0) return next(command, data, socket);
        const whole = collect(data);
        return whole && next(command, whole, socket);
      },
  } as unknown as Middleware;
}
