/**
 * audit: append-only events, chained by hash per tenant and for the platform; query, and proof of
 * the chains.
 */
import type { ServiceSchema } from 'moleculer';
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import type { BackgroundLoop } from '../../shared/background-loop.ts';
import { serviceOf } from '../../shared/cluster/service.ts';
import type { Settings } from '../../shared/settings.ts';
import { cutActions } from './actions/cuts.ts';
import { eventActions } from './actions/events.ts';
import { verifyActions } from './actions/verify.ts';
import { startErasingChains } from './worker/erasing-chains.ts';

export interface AuditOptions {
  readonly db: DataSource;
  readonly settings: () => Settings;
  readonly log: Logger;
}

export function auditService({ db, settings, log }: AuditOptions): ServiceSchema {
  let erasing: BackgroundLoop | undefined;
  const onErasure = (): void => erasing?.wake();
  const handlers = {
    ...eventActions(db, onErasure),
    ...cutActions(db, settings, onErasure),
    ...verifyActions(db, settings),
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
