/**
 * The loop that removes events of erased tenants and of cuts, a thousand at a time. What a node
 * leaves undone another does.
 */
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../../shared/concurrency/background-loop.ts';
import { removeCutEvents } from '../stores/cuts.ts';
import { eraseChunk } from '../stores/erased-chains.ts';

const intervalMs = 60_000;
const eventsAtOnce = 1000;

export function startErasingChains(db: DataSource, log: Logger): BackgroundLoop {
  async function eraseAll(stopping: AbortSignal): Promise<number> {
    let isMore = true;
    while (isMore && !stopping.aborted)
      isMore = await db.transaction((manager) => eraseChunk(manager));
    isMore = true;
    while (isMore && !stopping.aborted)
      isMore = await db.transaction((manager) => removeCutEvents(manager, eventsAtOnce));
    return intervalMs;
  }

  return startBackgroundLoop({
    log,
    look: eraseAll,
    retryMs: intervalMs,
    complaint:
      'events of an erased tenant or of a cut cannot be removed; it is tried again every minute',
  });
}
