/**
 * One open stream of Server-Sent Events. It is written to its connection itself: a stream object
 * and a pipe in between would cost several times the memory, and an encoding for each reader.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { OwnRequest } from '../http/own-handlers.ts';

/** How long a reader may take to fetch the rest of a stream that has ended. */
const graceMs = 1000;

/** Whose a stream is, for the limits. */
export interface Holder {
  readonly watcher: string;
  /** Null for who watches the platform's changes and acts for no tenant. */
  readonly tenantId: string | null;
  /** A fleet that shares a key and gives no names is one watcher, and has what its tenant has. */
  readonly isFleet: boolean;
}

/** What a stream is sent, by what is watched. */
export interface Subscription {
  /** The stream has begun. */
  begin(): void;
  /** The reader has room again, or the caller's right can be checked again. */
  goOn(): void;
  /** Called every 5 s, with how often that was. */
  heartbeat(beat: number): void;
  /** What is said beside `closed` where the caller lost the right to watch for this reason. */
  lastWord?(code: string): Buffer | undefined;
  /** The stream has ended. Called once, also where it never began. */
  leave(): void;
}

export class EventStream {
  readonly holder: Holder;
  readonly request: OwnRequest;
  /** Of the request: see there. Streams of one right have the same text. */
  readonly right: string;
  #subscription: Subscription | undefined;
  readonly #response: ServerResponse;
  readonly #onReleased: (stream: EventStream) => void;
  /**
   * Of a stream that has begun. Writing to the response would cost a third more of every heartbeat.
   */
  #socket: Socket | undefined;
  #isOver = false;
  /** When the reader's buffer became full; undefined while there is room. */
  #fullSince: number | undefined;

  constructor(
    holder: Holder,
    request: OwnRequest,
    right: string,
    onReleased: (stream: EventStream) => void,
  ) {
    this.holder = holder;
    this.request = request;
    this.right = right;
    this.#response = request.response;
    this.#onReleased = onReleased;
    this.#response.once('close', () => this.release());
  }

  /** Whether it may be written to now. */
  get isReady(): boolean {
    return this.#socket !== undefined && !this.#isOver && this.#fullSince === undefined;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** What is sent from here on. */
  subscribe(subscription: Subscription): void {
    if (this.#isOver) subscription.leave();
    else this.#subscription = subscription;
  }

  /** Sends the head of the response, and what the subscription begins with. */
  open(headers: Readonly<Record<string, string>>): void {
    const { socket, req } = this.#response;
    // The response does not say that its connection has closed where that was before the stream was
    // made, or before the response's turn.
    if (this.#isOver || req.socket.destroyed) {
      this.release();
      this.#response.destroy();
      return;
    }
    if (!socket) {
      // The response to a request before it, on the same connection, has not ended yet.
      req.socket.once('close', () => this.release());
      this.#response.once('socket', () => this.open(headers));
      return;
    }
    // The stream ends with its connection: pieces of a length each would cost every event two
    // writes more.
    this.#response.useChunkedEncodingByDefault = false;
    this.#response.writeHead(200, headers).flushHeaders();
    this.#socket = socket;
    this.#subscription?.begin();
  }

  /** `frame` may be one that other streams are sent, too. */
  write(frame: Buffer): void {
    if (!this.#socket || this.#isOver) return;
    const hasRoom = this.#socket.write(frame);
    if (hasRoom || this.#fullSince !== undefined) return;
    this.#fullSince = performance.now();
    this.#socket.once('drain', () => {
      this.#fullSince = undefined;
      if (!this.#isOver) this.#subscription?.goOn();
    });
  }

  heartbeat(beat: number): void {
    if (this.isReady) this.#subscription?.heartbeat(beat);
  }

  goOn(): void {
    if (this.isReady) this.#subscription?.goOn();
  }

  /** Cuts off a reader who has left the buffer full since before `moment` (performance.now()). */
  cutIfFullSince(moment: number): void {
    if (this.#fullSince !== undefined && this.#fullSince < moment) this.#response.destroy();
  }

  /** Ends the stream after `lastFrame`. A reader who does not take the rest in time is cut off. */
  end(lastFrame?: Buffer): void {
    if (this.#isOver) return;
    if (!this.#socket) {
      this.release();
      return;
    }
    if (lastFrame) this.#socket.write(lastFrame);
    this.release();
    this.#response.end();
    const straggler = setTimeout(() => this.#response.destroy(), graceMs);
    this.#response.once('close', () => clearTimeout(straggler));
  }

  /** Ends the stream because the caller lost the right to watch. */
  close(code: string): void {
    const closed = frame('closed', { code });
    const lastWord = this.#subscription?.lastWord?.(code);
    this.end(lastWord ? Buffer.concat([lastWord, closed]) : closed);
  }

  /** Gives its place free. For a stream that does not begin, and for one that has ended. */
  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#subscription?.leave();
    this.#onReleased(this);
  }
}

/**
 * An event as it is sent, encoded once for all who get it. JSON.stringify escapes line feeds, the
 * first of which would end the data.
 */
export function frame(event: string, data: unknown, id?: string | number): Buffer {
  const idLine = id === undefined ? '' : `id: ${id}\n`;
  return Buffer.from(`${idLine}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
}

/** Says nothing but that the connection is there. */
export const comment = Buffer.from(': still here\n\n');

/** Spread, so that the streams of a gateway that stops do not all come back at once. */
export const retryLine = (): Buffer =>
  Buffer.from(`retry: ${1000 + Math.floor(Math.random() * 1000)}\n\n`);
