/** A TCP proxy on loopback whose connections a test can cut. */
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

export interface Proxy {
  readonly port: number;
  /** Resets every connection, and each new one until it is mended. */
  readonly cut: () => void;
  readonly mend: () => void;
  readonly stop: () => Promise<void>;
}

/** Forwards what comes in on a free port to the target port, on loopback. */
export async function startProxy(targetPort: number): Promise<Proxy> {
  const sockets = new Set<Socket>();
  const state = { cut: false };
  const server = createServer((client) => {
    if (state.cut) {
      client.resetAndDestroy();
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
      state.cut = true;
      resetAll();
    },
    mend(): void {
      state.cut = false;
    },
    async stop(): Promise<void> {
      resetAll();
      await new Promise((done) => {
        server.close(done);
      });
    },
  };
}
