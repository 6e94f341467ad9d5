/**
 * Ends temporary changes whose time has come, by the database's clock, on whichever node looks first.
 * Each ends in one transaction with its document: once, or not at all.
 */
import type { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../../shared/concurrency/background-loop.ts';
import { tenantOfScope } from '../../../shared/contracts/revision-scopes.ts';
import type { LoopOptions } from '../../../shared/contract-runtime/service.ts';
import {
  dueTemporaries,
  secondsLate,
  tryLater,
} from '../../../shared/documents/temporary-changes.ts';
import { isOutage } from '../../../shared/errors.ts';
import { askedOfDatabase, addMetric } from '../../../shared/telemetry/metric.ts';

const pollMs = 1000;
const batch = 20;

export function startTemporaryChanges({ db, log, call }: LoopOptions): BackgroundLoop {
  /** One that cannot end holds up no other. Answers the outage that kept it from ending. */
  async function attempt(scope: string, id: string): Promise<unknown> {
    const address = { tenant_id: tenantOfScope(scope)!, temporary_change_id: id };
    try {
      await call('tenant-config.temporary-changes.end', address);
      return undefined;
    } catch (error) {
      if (isOutage(error)) return error;
      log.error({ err: error, ...address }, 'a temporary change did not end; it is tried again');
      await tryLater(db.manager, id);
      return undefined;
    }
  }
  return startBackgroundLoop({
    log,
    async look(stopping) {
      const due = await dueTemporaries(db, batch);
      const tenants = [...Map.groupBy(due, ({ scope }) => scope)];
      const outages = await Promise.all(
        tenants.map(async ([scope, ofTenant]) => {
          for (const { id } of ofTenant) {
            if (stopping.aborted) break;
            const outage = await attempt(scope, id);
            // Its others would wait as long for the same, and the other tenants for them.
            if (outage !== undefined) return outage;
          }
          return undefined;
        }),
      );
      const outage = outages.find((each) => each !== undefined);
      if (outage !== undefined) throw outage;
      return due.length === batch ? 0 : pollMs;
    },
    retryMs: pollMs,
    complaint: 'temporary changes cannot end; it is tried again',
    firstMs: pollMs,
  });
}

export function showTemporaryChanges(metrics: Registry, db: DataSource): void {
  addMetric(metrics, {
    name: 'strata_temporary_changes_late_seconds',
    help: 'For how long the temporary change that should have ended first is still there',
    read: askedOfDatabase(() => secondsLate(db.manager)),
  });
}
