/**
 * The form in which packets travel between Strata's own nodes: sealed with AES-256-GCM under a key
 * that follows from SECRET_KEY.
 *
 * | Bytes   | What                                                                                       |
 * |---------|--------------------------------------------------------------------------------------------|
 * | 0       | 0x01, the format; JSON begins with another byte                                            |
 * | 1–4     | which SECRET_KEY                                                                           |
 * | 5–20    | the sender's process: random, made again by every start                                     |
 * | 21–36   | the receiver's process, zeros for every node                                               |
 * | 37–42   | the packet's number, counted by its sender over all receivers, as a big-endian integer     |
 * | 43–     | encrypted: one byte with the length of the sender's node name, the name, the message       |
 * | last 16 | the tag, which also covers bytes 0–42 and the command of Moleculer's protocol (REQ, RES …) |
 *
 * A process has a key of its own, so that its packet number can be the nonce and is never used
 * twice with one key.
 */
import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hkdfSync,
  type KeyObject,
} from 'node:crypto';
import type { DerivedKey } from '../security/derived-keys.ts';

const format = 0x01;
const offsets = { keyId: 1, sender: 5, receiver: 21, number: 37, sealed: 43 } as const;
const numberBytes = offsets.sealed - offsets.number;
const tagBytes = 16;
const algorithm = 'aes-256-gcm';

/** How many hex digits of a key's id go into a packet. */
export const keyIdLength = (offsets.sender - offsets.keyId) * 2;
export const processIdBytes = offsets.receiver - offsets.sender;
/** Stands for every node in the place of a receiver. */
export const everyNode = '\0'.repeat(processIdBytes);

/**
 * What can be read of a packet before it is opened. Ids of processes are strings of a character for
 * each byte.
 */
export interface Envelope {
  readonly keyId: string;
  readonly sender: string;
  readonly receiver: string;
  readonly number: number;
}

export interface Contents {
  /** The sender's node name. */
  readonly nodeId: string;
  readonly message: Buffer;
}

/** The key of one process under one SECRET_KEY (RFC 5869). */
export const keyOfProcess = ({ bytes }: DerivedKey, processId: string): KeyObject =>
  createSecretKey(
    Buffer.from(hkdfSync('sha256', bytes, Buffer.from(processId, 'latin1'), 'strata packet', 32)),
  );

/** Undefined for what has another form. */
export function envelopeOf(packet: Buffer): Envelope | undefined {
  if (packet[0] !== format || packet.length < offsets.sealed + tagBytes) return undefined;
  return {
    keyId: packet.toString('hex', offsets.keyId, offsets.sender),
    sender: packet.toString('latin1', offsets.sender, offsets.receiver),
    receiver: packet.toString('latin1', offsets.receiver, offsets.number),
    number: packet.readUIntBE(offsets.number, numberBytes),
  };
}

function nonceOf(packet: Buffer): Buffer {
  const nonce = Buffer.alloc(12);
  packet.copy(nonce, nonce.length - numberBytes, offsets.number, offsets.sealed);
  return nonce;
}

export function seal(
  { keyId, sender, receiver, number }: Envelope,
  command: string,
  { nodeId, message }: Contents,
  key: KeyObject,
): Buffer {
  const name = Buffer.from(nodeId);
  const head = Buffer.alloc(offsets.sealed);
  head[0] = format;
  head.write(keyId, offsets.keyId, 'hex');
  head.write(sender, offsets.sender, 'latin1');
  head.write(receiver, offsets.receiver, 'latin1');
  head.writeUIntBE(number, offsets.number, numberBytes);
  const cipher = createCipheriv(algorithm, key, nonceOf(head), { authTagLength: tagBytes });
  cipher.setAAD(Buffer.concat([head, Buffer.from(command)]));
  const sealed = cipher.update(Buffer.concat([Buffer.from([name.length]), name, message]));
  cipher.final();
  return Buffer.concat([head, sealed, cipher.getAuthTag()]);
}

/**
 * Undefined where the packet was not sealed with this key, was changed since, or is of another
 * command.
 */
export function open(packet: Buffer, command: string, key: KeyObject): Contents | undefined {
  const decipher = createDecipheriv(algorithm, key, nonceOf(packet), { authTagLength: tagBytes });
  decipher.setAAD(Buffer.concat([packet.subarray(0, offsets.sealed), Buffer.from(command)]));
  const tagAt = packet.length - tagBytes;
  decipher.setAuthTag(packet.subarray(tagAt));
  const opened = decipher.update(packet.subarray(offsets.sealed, tagAt));
  try {
    decipher.final();
  } catch {
    return undefined;
  }
  const messageAt = 1 + (opened[0] ?? 0);
  return { nodeId: opened.toString('utf8', 1, messageAt), message: opened.subarray(messageAt) };
}

/** How far behind its sender's newest a packet may arrive. */
const windowSize = 4096;

/**
 * Which packets of one sender have arrived (RFC 6479). NATS keeps the order of a connection, so
 * little ever arrives late.
 */
export class ReplayWindow {
  readonly #arrived = new Uint32Array(windowSize / 32);
  #newest = -1;

  /** Notes that a packet has arrived. False where it had before, or is too old to tell. */
  accept(number: number): boolean {
    if (number <= this.#newest - windowSize) return false;
    this.#forgetUpTo(number);
    const { index, bit } = placeOf(number);
    const arrived = this.#arrived[index]!;
    if ((arrived & bit) !== 0) return false;
    this.#arrived[index] = arrived | bit;
    return true;
  }

  /** The places of numbers that are passed over belong to numbers that are too old by then. */
  #forgetUpTo(number: number): void {
    const first = Math.max(this.#newest + 1, number - windowSize + 1);
    for (let each = first; each <= number; each += 1) {
      const { index, bit } = placeOf(each);
      this.#arrived[index]! &= ~bit;
    }
    this.#newest = Math.max(this.#newest, number);
  }
}

function placeOf(number: number): { readonly index: number; readonly bit: number } {
  const place = number % windowSize;
  return { index: Math.floor(place / 32), bit: 1 << (place % 32) };
}
