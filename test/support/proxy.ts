/** A TCP proxy on loopback whose connections a test can cut. */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

export interface Proxy {
  readonly port: number;
  /** Resets every connection, and each new one until it is mended. */
  readonly cut: () => void;
  /** Resets every connection, and says nothing on new ones for as long as they stay. Resolves once there is a new one. */
  readonly silence: () => Promise<void>;
  /** What connects from now on is forwarded again. */
  readonly mend: () => void;
  readonly stop: () => Promise<void>;
}

/** Forwards what comes in on a free port to the target port, on loopback. */
export async function startProxy(targetPort: number): Promise<Proxy> {
  const sockets = new Set<Socket>();
  const state: { mode: 'forward' | 'cut' | 'silent' } = { mode: 'forward' };
  const server = createServer((client) => {
    if (state.mode === 'cut') {
      client.resetAndDestroy();
      return;
    }
    if (state.mode === 'silent') {
      sockets.add(client);
      client.on('error', () => {}).on('close', () => sockets.delete(client));
      return;
    }
    const target = connect(targetPort, '127.0.0.1');
    for (const [one, other] of [
      [client, target],
      [target, client],
    ] as const) {
      sockets.add(one);
      one
        .on('error', () => {})
        .on('close', () => {
          sockets.delete(one);
          other.destroy();
        });
      one.pipe(other);
    }
  });
  await new Promise<void>((done) => {
    server.listen(0, '127.0.0.1', done);
  });
  const resetAll = (): void => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut(): void {
      state.mode = 'cut';
      resetAll();
    },
    async silence(): Promise<void> {
      state.mode = 'silent';
      const connected = once(server, 'connection');
      resetAll();
      await connected;
    },
    mend(): void {
      state.mode = 'forward';
    },
    async stop(): Promise<void> {
      resetAll();
      await new Promise((done) => {
        server.close(done);
      });
    },
  };
}
