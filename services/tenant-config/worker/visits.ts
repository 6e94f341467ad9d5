/** Ends visits whose time is over by the database's clock, and has the audit say so. */
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../../shared/concurrency/background-loop.ts';
import type { LoopOptions } from '../../../shared/contract-runtime/service.ts';
import { dueVisits } from '../stores/visits.ts';

const pollMs = 5000;

export const startEndingVisits = ({ db, log, call }: LoopOptions): BackgroundLoop =>
  startBackgroundLoop({
    log,
    retryMs: pollMs,
    complaint: 'visits whose time is over are not ended; it is tried again every few seconds',
    async look(stopping) {
      for (const { tenant_id, id } of await dueVisits(db.manager)) {
        if (stopping.aborted) break;
        try {
          await call('tenant-config.visits.expire', { tenant_id, visit_id: id });
        } catch (error) {
          log.warn({ err: error, tenant_id }, 'a visit is not ended yet; it is tried again');
        }
      }
      return pollMs;
    },
    // Until the node can call others.
    firstMs: pollMs,
  });
