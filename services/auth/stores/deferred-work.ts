/** Work that is done once the request is answered, so that its time tells nothing of the answer. */
import { setImmediate as nextTurn } from 'node:timers/promises';

/** A flood of requests while a server stalls must not fill the memory. */
const mostAtOnce = 1000;

export function createDeferredWork() {
  const running = new Set<Promise<void>>();
  return {
    /** Undefined where too many wait already. `work` must not reject. */
    begin(work: () => Promise<void>): Promise<void> | undefined {
      if (running.size >= mostAtOnce) return undefined;
      const done = nextTurn()
        .then(work)
        .finally(() => running.delete(done));
      running.add(done);
      return done;
    },
    /** Resolves once nothing waits any more. */
    async ended(): Promise<void> {
      await Promise.all(running);
    },
  };
}
