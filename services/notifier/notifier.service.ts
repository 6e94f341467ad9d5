/** notifier: asks humans for approval, sends the notices until they arrive, escalates until somebody decides. */
import type { Context, ServiceBroker, ServiceSchema } from 'moleculer';
import type { Logger } from 'pino';
import { Gauge, type Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { serviceOf } from '../../shared/cluster/service.ts';
import type { Mailer } from '../../shared/mail/mailer.ts';
import type { HttpClient } from '../../shared/outgoing/http-client.ts';
import type { Settings } from '../../shared/settings.ts';
import { approvalActions } from './actions/approvals.ts';
import { deliveryActions } from './actions/deliveries.ts';
import { linkActions } from './actions/links.ts';
import { testActions } from './actions/test-send.ts';
import { createDecisionLinks } from './rules/decision-links.ts';
import { createFrozenVault } from './stores/frozen.ts';
import { startDelivering } from './worker/deliver.ts';
import { startEscalating } from './worker/escalate.ts';
import { createSender } from './worker/send.ts';

export interface NotifierOptions {
  readonly db: DataSource;
  readonly settings: () => Settings;
  readonly http: HttpClient;
  readonly mailer: Mailer;
  readonly log: Logger;
  readonly metrics: Registry;
}

const queuedEvent = 'notifier.queued';

export function notifierService({
  db,
  settings,
  http,
  mailer,
  log,
  metrics,
}: NotifierOptions): ServiceSchema {
  const vault = createFrozenVault(settings);
  const sender = createSender({ settings, http, mailer });
  let broker: ServiceBroker | undefined;
  let delivering: ReturnType<typeof startDelivering> | undefined;
  let escalating: ReturnType<typeof startEscalating> | undefined;
  // Wakes the workers of every notifier node, this one included; who misses it polls each second.
  const onQueued = (): void => {
    void broker?.broadcast(queuedEvent, {}, ['notifier']);
  };
  const approvals = { db, vault, onQueued };

  return {
    ...serviceOf(
      'notifier',
      {
        ...approvalActions(approvals),
        ...linkActions(approvals, () => createDecisionLinks(settings())),
        ...deliveryActions(db, onQueued),
        ...testActions(db, sender),
      },
      {
        async started() {
          const worker = (delivering = startDelivering({
            db,
            log,
            open: vault.open,
            send: sender.send,
            waits: sender.waits,
          }));
          escalating = startEscalating({ db, log, open: vault.open, onQueued });
          new Gauge({
            name: 'strata_deliveries',
            help: 'Notices: sends of this node by outcome and on their way; pending of all nodes',
            labelNames: ['figure'],
            registers: [metrics],
            async collect() {
              for (const [figure, value] of Object.entries(worker.figures()))
                this.set({ figure }, value);
              const [row] = await db
                .query<{ pending: number }[]>(
                  `SELECT count(*)::int AS pending FROM notifier.deliveries WHERE state = 'pending'`,
                )
                .catch(() => []);
              if (row) this.set({ figure: 'pending' }, row.pending);
            },
          });
        },
        async stopped() {
          await escalating?.stop();
          await delivering?.stop();
          mailer.close();
        },
      },
    ),
    created(this: { broker: ServiceBroker }) {
      broker = this.broker;
    },
    events: {
      [queuedEvent]: {
        handler(_ctx: Context) {
          delivering?.wake();
        },
      },
    },
  } as ServiceSchema;
}
