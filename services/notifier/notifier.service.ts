/**
 * notifier: asks people for approval, sends the notices until they arrive, and escalates until
 * somebody decides.
 *
 * What it answers: the Authorization API (actions/access.ts), approvals (actions/approvals.ts),
 * automations (actions/automations.ts), recorded decisions (actions/decisions.ts), their grants
 * (actions/granting.ts) and what is redeemed (actions/redeeming.ts), links in mails
 * (actions/links.ts), deliveries (actions/deliveries.ts), test notices (actions/test-send.ts). What
 * it does by itself: delivers (worker/deliver.ts), escalates (worker/escalate.ts), gives slots to
 * automations (worker/automations.ts), tells that budgets run out (worker/warnings.ts) and removes
 * what has had its time (stores/retention.ts).
 */
import type { Context, ServiceSchema } from 'moleculer';
import type { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import type { Coherence } from '../../shared/coherence/coherence.ts';
import { askedOfDatabase, addMetric } from '../../shared/telemetry/metric.ts';
import type { Call } from '../../shared/contract-runtime/request.ts';
import {
  serviceOf,
  type ServiceOptions,
  type Started,
} from '../../shared/contract-runtime/service.ts';
import { takingTurns } from '../../shared/contract-runtime/turns.ts';
import { erasesTenants } from '../../shared/node/tenant-erasure.ts';
import { wholeScopeKey } from '../../shared/contracts/feed.ts';
import { platformScope } from '../../shared/contracts/revision-scopes.ts';
import type { Mailer } from '../../shared/mail/mailer.ts';
import { startSweeping } from '../../shared/database/sweeper.ts';
import type { HttpClient } from '../../shared/outgoing/http-client.ts';
import { HeldRequests } from '../../shared/concurrency/held-requests.ts';
import { accessActions } from './actions/access.ts';
import { approvalActions } from './actions/approvals.ts';
import { automationActions } from './actions/automations.ts';
import { budgetActions } from './actions/budgets.ts';
import { changeSetActions } from './actions/change-sets.ts';
import { redeemActions } from './actions/redeeming.ts';
import { decisionActions } from './actions/decisions.ts';
import { deliveryActions } from './actions/deliveries.ts';
import { erasureActions } from './actions/erasure.ts';
import { automationCountActions } from './actions/automation-counts.ts';
import { grantActions, Grants } from './actions/granting.ts';
import { linkActions } from './actions/links.ts';
import { usageActions } from './actions/usage.ts';
import { testActions } from './actions/test-send.ts';
import { createSender } from './channels/sender.ts';
import { createDecisionLinks } from './rules/decision-links.ts';
import { shownOfApproval, type AutomationRow, type ShownApproval } from './schema.ts';
import { readChangedIn } from './stores/changed-rows.ts';
import { createFrozenConfigVault } from './stores/frozen-config.ts';
import { removeOldGrantKeys } from './stores/grant-keys.ts';
import { countWarned } from './stores/ledger.ts';
import { mailShares } from './stores/mail-shares.ts';
import { mostCounted, readQueue } from './stores/queue.ts';
import { slackCopies } from './stores/slack-messages.ts';
import {
  removeEndedApprovals,
  removeEndedAutomations,
  removeOldDecisions,
  removeOldLedger,
  removeSettledDeliveries,
  removeUnusedEndpoints,
} from './stores/retention.ts';
import {
  startGivingSlots,
  type AutomationWorkerOptions,
  type SlotWorker,
} from './worker/automations.ts';
import { startDelivering, type DeliveryOptions, type DeliveryWorker } from './worker/deliver.ts';
import { startEscalating, type EscalationOptions } from './worker/escalate.ts';
import {
  startSlackSockets,
  type SlackSocketOptions,
  type SlackSockets,
} from './worker/slack-sockets.ts';
import { startSlotClock } from './worker/slot-clock.ts';
import { TenantChanges } from './worker/tenant-changes.ts';
import { startTellingWarnings, type WarningOptions } from './worker/warnings.ts';

export interface NotifierOptions extends ServiceOptions {
  readonly http: HttpClient;
  readonly mailer: Mailer;
  /** Which changes every node is told of, by the feed at the latest. */
  readonly coherence: Pick<Coherence, 'onChange' | 'onReset'>;
  /** Who waits then is answered: the broker stops once nobody does. */
  readonly onStopping: (listener: () => void) => void;
}

/** Reads that may pass over all that a tenant has. */
const searching = [
  'notifier.approvals.list',
  'notifier.automations.list',
  'notifier.decisions.counts',
  'notifier.decisions.list',
  'notifier.deliveries.list',
] as const;

/** Broadcast when notices have been queued, as they are when an approval is decided. */
const queuedEvent = 'notifier.queued';
/** Broadcast with the tenant's id when an automation of its has changed. */
const automationsEvent = 'notifier.automations';
/** The same for an approval. */
const approvalsEvent = 'notifier.approvals';

export function notifierService(options: NotifierOptions): ServiceSchema {
  const { db, settings, http, mailer, log, metrics, coherence, onStopping } = options;
  const vault = createFrozenConfigVault(settings);
  let own: Started | undefined;
  let workers: Workers | undefined;

  // Wakes the workers of every notifier node, this one included. A node that misses it finds the
  // notices at its next poll.
  const onQueued = (): void => {
    void own?.broker.broadcast(queuedEvent, {}, ['notifier']);
  };
  const held = new HeldRequests(settings);
  const wakeSlots = (tenantId: string): void => workers?.givingSlots.wake(tenantId);
  const announce = (tenantId: string): void => {
    void own?.broker.broadcast(automationsEvent, { tenant_id: tenantId }, ['notifier']);
  };
  const changes = new TenantChanges({
    announce: (tenantId) => {
      wakeSlots(tenantId);
      announce(tenantId);
    },
    read: readChangedIn<AutomationRow>(db, 'automations'),
    held,
  });
  const approvalChanges = new TenantChanges({
    announce: (tenantId) => {
      wakeSlots(tenantId);
      void own?.broker.broadcast(approvalsEvent, { tenant_id: tenantId }, ['notifier']);
    },
    read: readChangedIn<ShownApproval>(db, 'approvals', shownOfApproval),
    held,
  });
  onStopping(() => {
    changes.stop();
    approvalChanges.stop();
  });
  const onChanged = (tenantId: string): void => approvalChanges.announce(tenantId);
  const call: Call = (action, params) => {
    if (!own) throw new Error('the notifier has not started');
    return own.call(action, params);
  };
  const verifiedDomains = (tenantId: string): Promise<readonly string[]> =>
    call('auth.sso.providers.domains', { tenant_id: tenantId });
  const copies = slackCopies(db);
  const sender = createSender({ settings, http, mailer, verifiedDomains, copies });
  let withoutDeciders = 0;
  const takeMails = mailShares(db, settings);
  const approvals = {
    db,
    vault,
    onQueued,
    onChanged,
    approvalChanges,
    settings,
    takeMails,
    onNoDecision: () => void (withoutDeciders += 1),
  };
  const grants = new Grants(db, settings);
  const handlers = {
    ...approvalActions(approvals),
    ...automationActions({ ...approvals, changes, grants }),
    ...budgetActions(db),
    ...changeSetActions({ db, vault, onQueued }),
    ...decisionActions(db, settings),
    ...redeemActions({ db, grants }),
    ...grantActions(grants),
    ...accessActions({ ...approvals, grants }),
    ...linkActions(approvals, () => createDecisionLinks(settings())),
    ...deliveryActions(db, onQueued, takeMails),
    ...testActions(db, settings, sender),
    ...erasureActions(db),
    ...usageActions(db, settings),
    ...automationCountActions(db),
  };
  let stopListening = (): void => {};
  const lifecycle = {
    async started(started: Started): Promise<void> {
      own = started;
      const { open } = vault;
      workers = startWorkers({ ...options, ...approvals, open, sender, call, announce });
      const { givingSlots } = workers;
      stopListening = followFeed({ coherence, changes, approvalChanges, givingSlots });
      registerMetrics(metrics, db, workers, () => withoutDeciders);
    },
    async stopped(): Promise<void> {
      stopListening();
      await workers?.stop();
      mailer.close();
    },
  };

  return {
    ...serviceOf('notifier', takingTurns(searching, handlers), lifecycle),
    events: {
      ...erasesTenants({
        service: 'notifier',
        log,
        erase: (ask, tenant_id) => ask('notifier.tenants.erase', { tenant_id }),
      }),
      [queuedEvent]: {
        handler(_ctx: Context) {
          workers?.delivering.wake();
        },
      },
      [approvalsEvent]: {
        handler({ params }: Context<{ tenant_id: string }>) {
          approvalChanges.changed(params.tenant_id);
        },
      },
      [automationsEvent]: {
        handler({ params }: Context<{ tenant_id: string }>) {
          changes.changed(params.tenant_id);
        },
      },
    },
  };
}

interface Workers {
  readonly delivering: DeliveryWorker;
  readonly givingSlots: SlotWorker;
  readonly slack: SlackSockets;
  readonly stop: () => Promise<void>;
}
type WorkerOptions = DeliveryOptions &
  EscalationOptions &
  AutomationWorkerOptions &
  WarningOptions &
  SlackSocketOptions;

function startWorkers(options: WorkerOptions & Pick<NotifierOptions, 'settings'>): Workers {
  const { db, log, settings } = options;
  const delivering = startDelivering(options);
  const escalating = startEscalating(options);
  const givingSlots = startGivingSlots(options);
  const telling = startTellingWarnings(options);
  const slack = startSlackSockets(options);
  const slotClock = startSlotClock({ db, log });
  const sweeps = {
    deliveries: removeSettledDeliveries(settings),
    approvals: removeEndedApprovals(settings),
    endpoints: removeUnusedEndpoints(settings),
    automations: removeEndedAutomations(settings),
    decisions: removeOldDecisions(settings),
    ledger: removeOldLedger(settings),
    grant_keys: removeOldGrantKeys,
  };
  const sweeping = startSweeping({ db, log, name: 'notifier', sweeps });
  return {
    delivering,
    givingSlots,
    slack,
    async stop() {
      const working = [givingSlots, telling, slack, slotClock, sweeping, escalating, delivering];
      await Promise.all(working.map((each) => each.stop()));
    },
  };
}

interface FeedOptions extends Pick<NotifierOptions, 'coherence'> {
  readonly changes: TenantChanges<AutomationRow>;
  readonly approvalChanges: TenantChanges<ShownApproval>;
  readonly givingSlots: SlotWorker;
}

/** What the feed says wakes whoever waits for it. Returns how to stop. */
function followFeed({ coherence, changes, approvalChanges, givingSlots }: FeedOptions): () => void {
  const stops = [
    coherence.onChange(({ scope, keys }) => {
      const [kind, tenantId = ''] = scope.split(':');
      if (kind === 'automations') changes.changed(tenantId);
      else if (kind === 'approvals') approvalChanges.changed(tenantId);
      else if (kind === 'tenant') givingSlots.configured(tenantId);
      else if (scope === platformScope) givingSlots.configured('all');
      // With this key a tenant is disabled, or enabled again.
      else if (kind === 'members' && keys.includes(wholeScopeKey)) givingSlots.configured(tenantId);
    }),
    coherence.onReset(() => {
      changes.missed();
      approvalChanges.missed();
      givingSlots.configured('all');
    }),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

/** What this node has sent and is sending, and what waits on all nodes. */
function registerMetrics(
  metrics: Registry,
  db: DataSource,
  { delivering, slack }: Workers,
  withoutDeciders: () => number,
): void {
  addMetric(metrics, {
    name: 'strata_approvals_without_deciders_total',
    help: 'Approvals that this node created while none of their groups had a member who could decide',
    read: withoutDeciders,
  });
  addMetric(metrics, {
    name: 'strata_slack_tenants',
    help: 'Tenants whose Slack connection this node holds, or is about to',
    read: slack.count,
  });
  const queue = askedOfDatabase(() => readQueue(db));
  addMetric(metrics, {
    name: 'strata_delivery_attempts_total',
    help: 'Sends of notices by this node that have ended, by outcome: delivered, to be retried, failed for good',
    labelNames: ['outcome'],
    read() {
      const { delivered, retried, failed } = delivering.counts();
      return Object.entries({ delivered, retried, failed }).map(([outcome, value]) => ({
        labels: { outcome },
        value,
      }));
    },
  });
  addMetric(metrics, {
    name: 'strata_deliveries_in_flight',
    help: 'Sends of notices by this node that are in flight',
    read: () => delivering.counts().in_flight,
  });
  addMetric(metrics, {
    name: 'strata_deliveries_pending',
    help: `Notices that are not settled yet, of all nodes; counted up to ${mostCounted}`,
    read: async () => (await queue())?.pending,
  });
  addMetric(metrics, {
    name: 'strata_deliveries_overdue_seconds',
    help: 'For how long the notice that is due longest waits for a node to send it, of all nodes; without those whose endpoint fails',
    read: async () => (await queue())?.overdue_seconds,
  });
  addMetric(metrics, {
    name: 'strata_deliveries_unknown_channel',
    help: `Notices that wait, of all nodes, of a channel that the release of this node does not know, among ${mostCounted}`,
    read: async () => (await queue())?.unknown_channel,
  });
  addMetric(metrics, {
    name: 'strata_budgets_warned',
    help: 'Budgets of all tenants that have reached their warn_at in their period',
    read: askedOfDatabase(() => countWarned(db)),
  });
}
