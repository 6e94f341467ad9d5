/**
 * audit: append-only events, chained by hash per tenant and for the platform; query, and proof of
 * the chains.
 */
import type { ServiceSchema } from 'moleculer';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import type { BackgroundLoop } from '../../shared/concurrency/background-loop.ts';
import { serviceOf } from '../../shared/contract-runtime/service.ts';
import { startSweeping, type Sweeper } from '../../shared/database/sweeper.ts';
import type { Settings } from '../../shared/settings/settings.ts';
import { showFigure } from '../../shared/telemetry/figures.ts';
import { checkpointActions } from './actions/checkpoints.ts';
import { cutActions } from './actions/cuts.ts';
import { eventActions } from './actions/events.ts';
import { exportActions } from './actions/export.ts';
import { verifyActions, type Verified } from './actions/verify.ts';
import { waitingActions } from './actions/waiting.ts';
import { removeOldCheckpoints } from './stores/checkpoints.ts';
import { startCheckpoints, type Checkpoints } from './worker/checkpoints.ts';
import { startErasingChains } from './worker/erasing-chains.ts';
import { Verifications } from './worker/verifications.ts';

export interface AuditOptions {
  readonly db: DataSource;
  readonly settings: () => Settings;
  readonly log: Logger;
  readonly metrics: Registry;
}

/** Each takes a connection, of which lists and events need some. */
const mostVerifications = 2;

export function auditService({ db, settings, log, metrics }: AuditOptions): ServiceSchema {
  let erasing: BackgroundLoop | undefined;
  let checkpoints: Checkpoints | undefined;
  let sweeping: Sweeper | undefined;
  const onErasure = (): void => erasing?.wake();
  const verifications = new Verifications<Verified>(
    Math.min(mostVerifications, Math.max(1, Math.floor(settings().db_pool_size / 10))),
    () => settings().audit_verifications_waiting,
  );
  const handlers = {
    ...eventActions(db, onErasure),
    ...exportActions(db),
    ...cutActions(db, settings, onErasure),
    ...verifyActions(db, settings, verifications),
    ...waitingActions(db),
    ...checkpointActions(db, settings),
  };
  return serviceOf('audit', handlers, {
    async started() {
      erasing = startErasingChains(db, log);
      checkpoints = startCheckpoints({ db, settings, log });
      const sweeps = { checkpoints: removeOldCheckpoints };
      sweeping = startSweeping({ db, log, name: 'audit', sweeps });
      showFigure(metrics, {
        name: 'strata_audit_chains_rewritten',
        help: 'Audit chains that no longer agree with their newest checkpoint, as of the last look of this node, each hour',
        type: 'gauge',
        read: () => checkpoints?.broken(),
      });
    },
    async stopped() {
      await sweeping?.stop();
      await checkpoints?.stop();
      await erasing?.stop();
    },
  });
}
