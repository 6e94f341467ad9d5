/** The loop that removes events of erased tenants and of cuts, a thousand at a time. What a node leaves undone another does. */
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import { WakeableWait } from '../../../shared/wakeable-wait.ts';
import { removeCutEvents } from '../stores/cuts.ts';
import { erasePiece } from '../stores/erased-chains.ts';

const intervalMs = 60_000;
const eventsAtOnce = 1000;

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
    isMore = true;
    while (isMore && !stopping.signal.aborted)
      isMore = await db.transaction((manager) => removeCutEvents(manager, eventsAtOnce));
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
            'events of an erased tenant or of a cut cannot be removed; it is tried again every minute',
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
