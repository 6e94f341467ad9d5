/** The loop that erases the chains of erased tenants, a thousand events at a time. What a node leaves undone another does. */
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import { WakeableWait } from '../../../shared/wakeable-wait.ts';
import { erasePiece } from '../stores/erased-chains.ts';

const intervalMs = 60_000;

export interface ChainEraser {
  /** To be called when a chain is to be erased. */
  readonly wake: () => void;
  readonly stop: () => Promise<void>;
}

export function startErasingChains(db: DataSource, log: Logger): ChainEraser {
  const nextLook = new WakeableWait();
  const stopping = new AbortController();

  async function eraseAll(): Promise<void> {
    let isMore = true;
    while (isMore && !stopping.signal.aborted)
      isMore = await db.transaction((manager) => erasePiece(manager));
  }

  async function run(): Promise<void> {
    let isFailing = false;
    while (!stopping.signal.aborted) {
      try {
        await eraseAll();
        isFailing = false;
      } catch (error) {
        if (!isFailing && !stopping.signal.aborted)
          log.warn(
            { err: error },
            'the audit of an erased tenant cannot be erased; it is tried again every minute',
          );
        isFailing = true;
      }
      if (!stopping.signal.aborted) await nextLook.wait(intervalMs);
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
