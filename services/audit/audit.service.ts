/**
 * audit: append-only events, chained by hash per tenant and for the platform; query, and proof of
 * the chains.
 */
import type { ServiceSchema } from 'moleculer';
import type { Call } from '../../shared/contract-runtime/request.ts';
import {
  serviceOf,
  type ServiceOptions,
  type Started,
} from '../../shared/contract-runtime/service.ts';
import { takingTurns } from '../../shared/contract-runtime/turns.ts';
import { startSweeping } from '../../shared/database/sweeper.ts';
import { createGuard } from '../../shared/outgoing/guard.ts';
import { createHttpClient } from '../../shared/outgoing/http-client.ts';
import { askedOfDatabase, addMetric } from '../../shared/telemetry/metric.ts';
import { checkpointActions } from './actions/checkpoints.ts';
import { cutActions } from './actions/cuts.ts';
import { destinationActions } from './actions/destinations.ts';
import { eventActions } from './actions/events.ts';
import { exportActions } from './actions/export.ts';
import { verifyActions, type Verified } from './actions/verify.ts';
import { waitingActions } from './actions/waiting.ts';
import { removeOldCheckpoints } from './stores/checkpoints.ts';
import { longestLags } from './stores/destinations.ts';
import { startCheckpoints } from './worker/checkpoints.ts';
import { startErasingChains } from './worker/erasing-chains.ts';
import { startMailing } from './worker/mailing.ts';
import { startPushing } from './worker/pushing.ts';
import { Verifications } from './worker/verifications.ts';

/** Each takes a connection, of which lists and events need some. */
const mostVerifications = 2;

/** Reads that may pass over many events to find few. */
const searching = ['audit.events.list', 'audit.export'] as const;

export function auditService({ db, settings, log, metrics }: ServiceOptions): ServiceSchema {
  const http = createHttpClient(createGuard(settings), settings);
  const sweeps = { checkpoints: removeOldCheckpoints };
  /** In the order in which they are stopped. */
  const start = (call: Call) => ({
    mailing: startMailing({ db, log, call }),
    pushing: startPushing({ db, http, log, call }),
    sweeping: startSweeping({ db, log, name: 'audit', sweeps }),
    checkpoints: startCheckpoints({ db, settings, log }),
    erasing: startErasingChains(db, log),
  });
  let loops: ReturnType<typeof start> | undefined;
  const readLags = askedOfDatabase(() => longestLags(db.manager));
  const wakePushing = (): void => loops?.pushing.wake();
  const onMails = (): void => loops?.mailing.wake();
  const onErasure = (): void => loops?.erasing.wake();
  const verifications = new Verifications<Verified>(
    Math.min(mostVerifications, Math.max(1, Math.floor(settings().db_pool_size / 10))),
    () => settings().audit_verifications_waiting,
  );
  const handlers = {
    ...eventActions(db, { onErasure, onMails, onAppend: wakePushing }),
    ...exportActions(db),
    ...cutActions(db, settings, onErasure),
    ...verifyActions(db, settings, verifications),
    ...waitingActions(db),
    ...checkpointActions(db, settings),
    ...destinationActions({ db, settings, http, onReplay: wakePushing }),
  };
  const lifecycle = {
    async started({ call }: Started): Promise<void> {
      loops = start(call);
      const { checkpoints } = loops;
      addMetric(metrics, {
        name: 'strata_audit_chains_rewritten',
        help: 'Audit chains that no longer agree with their newest checkpoint, as of the last look of this node, each hour',
        read: () => checkpoints.broken(),
      });
      addMetric(metrics, {
        name: 'strata_event_destination_lag_seconds',
        help: 'How old the oldest event is that waits for an event destination of any tenant: of those that fail, and of those that do not',
        labelNames: ['state'],
        async read() {
          const lags = Object.entries((await readLags()) ?? {});
          return lags.map(([state, value]) => ({ labels: { state }, value }));
        },
      });
    },
    async stopped(): Promise<void> {
      for (const loop of Object.values(loops ?? {})) await loop.stop();
    },
  };
  return serviceOf('audit', takingTurns(searching, handlers), lifecycle);
}
