import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** A TCP proxy that can be cut: connections are reset, and new ones too until it is mended. */
export type Proxy = Awaited<ReturnType<typeof startProxy>>;
export async function startProxy(targetPort: number) {
  const sockets = new Set<Socket>();
  const state = { cut: false };
  const server = createServer((near) => {
    if (state.cut) {
      near.resetAndDestroy();
      return;
    }
    const far = connect(targetPort, '127.0.0.1');
    for (const [one, other] of [
      [near, far],
      [far, near],
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
  const reset = (): void => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut(): void {
      state.cut = true;
      reset();
    },
    mend(): void {
      state.cut = false;
    },
    async stop(): Promise<void> {
      reset();
      await new Promise((done) => {
        server.close(done);
      });
    },
  };
}
