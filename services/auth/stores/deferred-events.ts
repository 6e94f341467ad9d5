/**
 * Audit events that are recorded after the request is answered. They are about accounts that exist;
 * if the answer waited for them, its time would tell that the account does. One that cannot be
 * recorded is logged, and one that waits when the process is killed is lost: nothing has changed
 * that it would tell of.
 */
import type { DataSource } from 'typeorm';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import type { EventDraft } from '../../../shared/commits/commit.ts';
import { recordEvent } from './audit-events.ts';

export interface DeferredEvents {
  /** Returns at once. */
  readonly record: (event: EventDraft, request: Request) => void;
  /** Resolves once nothing waits any more. */
  readonly stop: () => Promise<void>;
}

/** A flood of failures while the database stalls must not fill the memory. */
const mostAtOnce = 1000;

const nextTurn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

export function createDeferredEvents(db: DataSource): DeferredEvents {
  const running = new Set<Promise<void>>();

  async function recordLater(event: EventDraft, request: Request): Promise<void> {
    await nextTurn();
    try {
      await recordEvent(db.manager, event, request);
    } catch (error) {
      const { action, target } = event;
      request.log.error({ err: error, event: { action, target } }, 'an event was not recorded');
    }
  }

  return {
    record(event, request) {
      if (running.size >= mostAtOnce) {
        const { action, target } = event;
        request.log.error({ event: { action, target } }, 'an event was not recorded: too many');
        return;
      }
      const work = recordLater(event, request).finally(() => running.delete(work));
      running.add(work);
    },
    async stop() {
      await Promise.all(running);
    },
  };
}
