/**
 * A loop that looks for work at intervals, and is told when there is some. What it does follows
 * from what is stored, so that whatever a node that is gone left undone another does. Failures are
 * logged once until a look succeeds.
 */
import type { Logger } from 'pino';
import { WakeableWait } from './wakeable-wait.ts';

export interface BackgroundLoopOptions {
  readonly log: Logger;
  /**
   * Does what there is to do, as far as it gets before it is stopped. Resolves to how long to wait
   * for the next look, in milliseconds, unless woken; 0 where there is more to do.
   */
  readonly look: (stopping: AbortSignal) => Promise<number>;
  /** The wait after a look that failed, in milliseconds. */
  readonly retryMs: number;
  /** Said in the log of the first of several looks that fail. */
  readonly complaint: string;
  /** Until the first look, in milliseconds; none by default. */
  readonly firstMs?: number;
}

export interface BackgroundLoop {
  /** To be called when there is something to do. */
  readonly wake: () => void;
  /** Resolves when the look on its way has ended. */
  readonly stop: () => Promise<void>;
}

export function startBackgroundLoop({
  log,
  look,
  retryMs,
  complaint,
  firstMs = 0,
}: BackgroundLoopOptions): BackgroundLoop {
  const nextLook = new WakeableWait();
  const stopping = new AbortController();
  const { signal } = stopping;

  async function run(): Promise<void> {
    let isFailing = false;
    let waitMs = firstMs;
    while (!signal.aborted) {
      if (waitMs > 0) await nextLook.wait(waitMs);
      if (signal.aborted) return;
      try {
        waitMs = await look(signal);
        isFailing = false;
      } catch (error) {
        if (!isFailing && !signal.aborted) log.warn({ err: error }, complaint);
        isFailing = true;
        waitMs = retryMs;
      }
    }
  }

  const running = run();
  return {
    wake: () => nextLook.wake(),
    async stop() {
      stopping.abort();
      nextLook.wake();
      await running;
    },
  };
}
