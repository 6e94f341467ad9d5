/**
 * audit: append-only events, chained by hash per tenant and for the platform; query, and proof of
 * the chains.
 */
import type { ServiceSchema } from 'moleculer';
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import type { BackgroundLoop } from '../../shared/concurrency/background-loop.ts';
import { serviceOf } from '../../shared/contract-runtime/service.ts';
import type { Settings } from '../../shared/settings/settings.ts';
import { cutActions } from './actions/cuts.ts';
import { eventActions } from './actions/events.ts';
import { verifyActions, type Verified } from './actions/verify.ts';
import { waitingActions } from './actions/waiting.ts';
import { startErasingChains } from './worker/erasing-chains.ts';
import { Verifications } from './worker/verifications.ts';

export interface AuditOptions {
  readonly db: DataSource;
  readonly settings: () => Settings;
  readonly log: Logger;
}

/** Each takes a connection, of which lists and events need some. */
const mostVerifications = 2;

export function auditService({ db, settings, log }: AuditOptions): ServiceSchema {
  let erasing: BackgroundLoop | undefined;
  const onErasure = (): void => erasing?.wake();
  const verifications = new Verifications<Verified>(
    Math.min(mostVerifications, Math.max(1, Math.floor(settings().db_pool_size / 10))),
    () => settings().audit_verifications_waiting,
  );
  const handlers = {
    ...eventActions(db, onErasure),
    ...cutActions(db, settings, onErasure),
    ...verifyActions(db, settings, verifications),
    ...waitingActions(db),
  };
  return serviceOf('audit', handlers, {
    async started() {
      erasing = startErasingChains(db, log);
    },
    async stopped() {
      await erasing?.stop();
    },
  });
}
