/**
 * A TCP proxy on loopback whose connections a test can cut, hold up, slow down and lead elsewhere.
 */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';

/** To the target, or back to the client. */
export type Direction = 'there' | 'back';

export interface Proxy {
  readonly port: number;
  /** Resets every connection, and each new one until it is mended. */
  readonly cut: () => void;
  /** Resets every connection once. */
  readonly reset: () => void;
  /**
   * Resets every connection, and says nothing on new ones for as long as they stay. Resolves once
   * there is a new one.
   */
  readonly silence: () => Promise<void>;
  /**
   * Keeps back what is sent in that direction, on connections that stay open. Once it is mended,
   * all of it arrives.
   */
  readonly hold: (direction: Direction) => void;
  /** Each byte takes so much longer in either direction, until it is mended. */
  readonly slow: (ms: number) => void;
  /**
   * For PostgreSQL: resets the connection whose transaction sends this text next, once its commit
   * was answered, so that the client gets no answer.
   */
  readonly loseCommit: (of: string) => void;
  /** What connects from now on reaches another port. */
  readonly lead: (targetPort: number) => void;
  /** What connects from now on is forwarded again, and what was held up continues. */
  readonly mend: () => void;
  readonly stop: () => Promise<void>;
}

interface Line {
  mode: 'forward' | 'cut' | 'silent';
  delayMs: number;
  targetPort: number;
  /** By direction: resolves once nothing is kept back any more. */
  readonly held: Map<Direction, PromiseWithResolvers<void>>;
  /** What the transaction sends whose commit is to be lost next. */
  losing: string | undefined;
}

/** Forwards what comes in on a free port to the target port, on loopback. */
export async function startProxy(targetPort: number): Promise<Proxy> {
  const sockets = new Set<Socket>();
  const line: Line = {
    mode: 'forward',
    delayMs: 0,
    targetPort,
    held: new Map(),
    losing: undefined,
  };
  const track = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
  };
  const server = createServer((client) => {
    if (line.mode === 'cut') {
      client.resetAndDestroy();
      return;
    }
    track(client);
    if (line.mode === 'silent') return;
    const target = connect(line.targetPort, '127.0.0.1');
    track(target);
    loseCommits(client, target, line);
    forward(client, target, 'there', line);
    forward(target, client, 'back', line);
  });
  await new Promise<void>((done) => {
    server.listen(0, '127.0.0.1', done);
  });
  const reset = (): void => {
    for (const socket of sockets) {
      // Node never closes one that is reset while its end is on the way, and then waits for it at
      // the end of the process for good.
      const isEnding = socket.writableEnded && !socket.writableFinished;
      if (isEnding) socket.destroy();
      else socket.resetAndDestroy();
    }
  };
  return {
    port: (server.address() as AddressInfo).port,
    reset,
    cut(): void {
      line.mode = 'cut';
      reset();
    },
    async silence(): Promise<void> {
      line.mode = 'silent';
      const connected = once(server, 'connection');
      reset();
      await connected;
    },
    hold(direction): void {
      if (!line.held.has(direction)) line.held.set(direction, Promise.withResolvers());
    },
    slow(ms): void {
      line.delayMs = ms;
    },
    loseCommit(of): void {
      line.losing = of;
    },
    lead(port): void {
      line.targetPort = port;
    },
    mend(): void {
      line.mode = 'forward';
      line.delayMs = 0;
      for (const { resolve } of line.held.values()) resolve();
      line.held.clear();
    },
    async stop(): Promise<void> {
      reset();
      await new Promise((done) => {
        server.close(done);
      });
    },
  };
}

/** Before anything is forwarded, so that the answer of the commit that is to be lost never is. */
function loseCommits(client: Socket, target: Socket, line: Line): void {
  let sent = '';
  let isCommitting = false;
  client.on('data', (chunk: Buffer) => {
    const text = chunk.toString('latin1');
    if (/BEGIN\0|START TRANSACTION/.test(text)) sent = '';
    sent += text;
    if (text.includes('COMMIT\0'))
      isCommitting = line.losing !== undefined && sent.includes(line.losing);
  });
  target.on('data', (chunk: Buffer) => {
    if (!isCommitting || !line.losing || !chunk.includes('COMMIT\0')) return;
    target.removeAllListeners('data');
    client.resetAndDestroy();
    target.destroy();
    line.losing = undefined;
  });
}

/**
 * Writes to one socket what the other reads, in its order, as the line lets it. Their end, however
 * it comes, is one of both.
 */
function forward(from: Socket, to: Socket, direction: Direction, line: Line): void {
  let before = Promise.resolve();
  const inTurn = (step: () => void): void => {
    const dueAt = performance.now() + line.delayMs;
    before = before.then(async () => {
      const early = dueAt - performance.now();
      if (early > 0) await delay(early);
      await line.held.get(direction)?.promise;
      step();
    });
  };
  from
    .on('data', (chunk: Buffer) => inTurn(() => to.write(chunk)))
    .on('end', () => inTurn(() => to.end()))
    .on('close', () => inTurn(() => to.destroy()));
}
