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
import { createDeferredWork } from './deferred-work.ts';

export type DeferredEvents = ReturnType<typeof createDeferredEvents>;

export function createDeferredEvents(db: DataSource) {
  const deferred = createDeferredWork();

  async function recordLater(event: EventDraft, request: Request): Promise<void> {
    try {
      await recordEvent(db.manager, event, request);
    } catch (error) {
      const { action, target } = event;
      request.log.error({ err: error, event: { action, target } }, 'an event was not recorded');
    }
  }

  return {
    /** Returns at once. */
    record(event: EventDraft, request: Request): void {
      if (deferred.begin(() => recordLater(event, request))) return;
      const { action, target } = event;
      request.log.error({ event: { action, target } }, 'an event was not recorded: too many');
    },
    /** Resolves once nothing waits any more. */
    stop: deferred.ended,
  };
}
