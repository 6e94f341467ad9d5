/**
 * Hands steps of change sets to the notifier until it has queued them. Each is queued once, also
 * where it is handed over twice.
 */
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../../shared/concurrency/background-loop.ts';
import type { LoopOptions } from '../../../shared/contract-runtime/service.ts';
import { claimNotices, removeNotices } from '../stores/change-set-notices.ts';

const pollMs = 1000;

export const startChangeSetNotices = ({ db, log, call }: LoopOptions): BackgroundLoop =>
  startBackgroundLoop({
    log,
    retryMs: pollMs,
    complaint: 'notices of change sets wait; they are tried again every second',
    async look(stopping) {
      const due = await claimNotices(db);
      const tenants = Map.groupBy(due, ({ tenant_id: tenantId }) => tenantId);
      for (const [tenantId, notices] of tenants) {
        if (stopping.aborted) break;
        try {
          const body = notices.map(({ notice }) => notice);
          await call('notifier.change-sets.notify', { tenant_id: tenantId, body });
          await removeNotices(db, notices);
        } catch (error) {
          log.warn(
            { err: error, tenant_id: tenantId },
            'notices of change sets are not queued; it is tried again in ten seconds',
          );
        }
      }
      return due.length > 0 ? 0 : pollMs;
    },
  });
