/**
 * tenant-config: tenants and members, their configuration documents, ConfigurationHistory and
 * rollback.
 *
 * The names of a tenant's documents, for whoever meets one of them in a log, a table or a cache:
 *
 * | document              | actions         | config_type          | cache key            | audit event            | table                        |
 * | --------------------- | --------------- | -------------------- | -------------------- | ---------------------- | ---------------------------- |
 * | risk limits           | `risk`          | `tenant_risk_config` | `risk_config_…`      | `config.risk.…`        | `tenant_risk_configurations` |
 * | agent configuration   | `agents`        | `agent_config`       | `agent_config_…`     | `config.agent.…`       | `agent_configurations`       |
 * | service instance      | `services`      | `service_config`     | `service_instance_…` | `config.service.…`     | `service_configurations`     |
 * | project               | `projects`      | `project_config`     | `project_config_…`   | `config.project.…`     | `cloud_projects`             |
 * | bounds                | `bounds`        | `bounds_config`      | `bounds_…`           | `config.bounds.…`      | `bounds`                     |
 * | budgets               | `budgets`       | `budgets_config`     | `budgets_…`          | `config.budgets.…`     | `budgets`                    |
 * | freezes               | `freezes`       | `freezes_config`     | `freezes_…`          | `config.freezes.…`     | `freezes`                    |
 * | change_policy         | `change-policy` | `change_policy_config`| `change_policy_…`   | `config.change_policy.…` | `change_policies`      |
 * | event_destinations    | `event-destinations` | `event_destinations_config` | `event_destinations_…` | `config.event_destinations.…` | `event_destinations` |
 * | notification_config   | `notifications` | `notification_config`| `notification_config_…` | `config.notifications.…` | a column of `tenants`   |
 */
import type { ServiceSchema } from 'moleculer';
import type { DataSource } from 'typeorm';
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../shared/concurrency/background-loop.ts';
import {
  serviceOf,
  type ServiceOptions,
  type Started,
} from '../../shared/contract-runtime/service.ts';
import { takingTurns } from '../../shared/contract-runtime/turns.ts';
import type { AgentConfig } from '../../shared/contracts/agents.ts';
import type { ProjectConfig } from '../../shared/contracts/projects.ts';
import type { TenantAddress } from '../../shared/contracts/tenant-document.ts';
import { erasingEvent, erasingServices } from '../../shared/contracts/tenants.ts';
import type { ServiceInstance } from '../../shared/contracts/service-instances.ts';
import { showChangeSets } from '../../shared/change-sets/metrics.ts';
import { withProposals } from '../../shared/change-sets/proposing.ts';
import { startSchedule } from '../../shared/change-sets/schedule.ts';
import { documentActions } from '../../shared/documents/document.ts';
import type { DocumentKind } from '../../shared/documents/document-kind.ts';
import { handlersOf } from '../../shared/documents/handlers.ts';
import { accessReportActions } from './actions/access-report.ts';
import { boundActions } from './actions/bounds.ts';
import { tenantChangeSetOptions, tenantChangeSets } from './actions/change-sets.ts';
import { contextActions } from './actions/contexts.ts';
import { deciderActions } from './actions/deciders.ts';
import { withEffectiveTrials } from './actions/effective-trials.ts';
import { erasingActions } from './actions/erasing.ts';
import { eventDestinationActions } from './actions/event-destinations.ts';
import { historyActions } from './actions/history.ts';
import { layerActions } from './actions/layers.ts';
import { overTimeActions } from './actions/limits-over-time.ts';
import { listing } from './actions/listing.ts';
import { managedFieldActions } from './actions/managed-fields.ts';
import { memberActions } from './actions/members.ts';
import { notificationActions } from './actions/notifications.ts';
import { proposedActions } from './actions/proposed.ts';
import { rollbackAction } from './actions/rollback.ts';
import { directoryGroupActions, scimGroupActions } from './actions/scim-groups.ts';
import { scimActions } from './actions/scim.ts';
import { serviceAccountActions } from './actions/service-accounts.ts';
import { temporaryChangeActions } from './actions/temporary-changes.ts';
import { tenantActions } from './actions/tenants.ts';
import { usageActions } from './actions/usage.ts';
import { violationActions } from './actions/violations.ts';
import { visitActions } from './actions/visits.ts';
import { counting, writeCountActions } from './actions/write-counts.ts';
import { agentKind } from './documents/agent.ts';
import { boundsKind } from './documents/bounds.ts';
import { budgetsKind } from './documents/budgets.ts';
import { changePolicyKind } from './documents/change-policy.ts';
import { eventDestinationsKind } from './documents/event-destinations.ts';
import { freezesKind } from './documents/freezes.ts';
import { notificationKind } from './documents/notification-config.ts';
import { projectKind } from './documents/project.ts';
import { riskKind } from './documents/risk.ts';
import { serviceInstanceKind } from './documents/service-instance.ts';
import { withinQuotas } from './documents/within-quotas.ts';
import { AgentEntity, ChangeSetEntity, ProjectEntity, ServiceInstanceEntity } from './schema.ts';
import { startChangeSetNotices } from './worker/change-set-notices.ts';
import { WriteCounts } from './stores/write-counts.ts';
import { startErasing } from './worker/erasing.ts';
import { showTemporaryChanges, startTemporaryChanges } from './worker/temporary-changes.ts';
import { startEndingVisits } from './worker/visits.ts';

/** Reads that may pass over all that a tenant has. */
const searching = [
  'tenant-config.access-report',
  'tenant-config.history.list',
  'tenant-config.scim.groups.list',
  'tenant-config.scim.users.list',
] as const;

/** Between two times that counts are stored. */
const countsMs = 5000;

function documentsOf(
  { db, settings }: Pick<ServiceOptions, 'db' | 'settings'>,
  within: typeof withinQuotas,
) {
  const actionsOf = <Address extends TenantAddress, Document, Context>(
    kind: DocumentKind<Address, Document, Context>,
    what: Parameters<typeof within>[2],
  ) => documentActions(db, within(kind, settings, what));
  return {
    risk: actionsOf(riskKind(settings), 'limits'),
    agents: actionsOf(agentKind, 'documents'),
    services: actionsOf(serviceInstanceKind, 'documents'),
    projects: actionsOf(projectKind, 'documents'),
    bounds: actionsOf(boundsKind, 'limits'),
    budgets: actionsOf(budgetsKind, 'limits'),
    freezes: actionsOf(freezesKind, 'limits'),
    changePolicy: actionsOf(changePolicyKind, 'limits'),
    eventDestinations: actionsOf(eventDestinationsKind(settings), 'settings'),
    notifications: actionsOf(notificationKind(db, settings), 'settings'),
  };
}

/** For the ends of temporary changes: whoever used up the tenant's quotas would keep what was to end. */
const withoutQuotas: typeof withinQuotas = (kind) => kind;

/** Writes whose dry run also says what would become of an effective configuration. */
function trialsOf(db: DataSource, documents: ReturnType<typeof documentsOf>) {
  return {
    risk: withEffectiveTrials(db, documents.risk, 'tenant_risk_config', ({ tenant_id: id }) => id),
    agents: withEffectiveTrials(
      db,
      documents.agents,
      'agent_config',
      ({ agent_type: type }) => type,
      ({ agent_type }) => ({ agent_type }),
    ),
    services: withEffectiveTrials(
      db,
      documents.services,
      'service_config',
      ({ service_id: id }) => id,
      ({ service_id }) => ({ service_id }),
    ),
  };
}

interface Loops extends ServiceOptions, Pick<Started, 'call'> {
  readonly announce: () => void;
  readonly writeCounts: WriteCounts;
}

function startLoops({ db, settings, log, call, announce, writeCounts }: Loops): BackgroundLoop[] {
  return [
    startErasing({ db, settings, log, call, announce }),
    startEndingVisits({ db, log, call }),
    startSchedule({
      db,
      entity: ChangeSetEntity,
      service: 'tenant-config',
      log,
      run: (tenantId, id) =>
        call('tenant-config.changesets.run', { tenant_id: tenantId!, changeset_id: id }),
    }),
    startTemporaryChanges({ db, log, call }),
    startChangeSetNotices({ db, log, call }),
    startBackgroundLoop({
      log,
      async look() {
        await writeCounts.store(db);
        return countsMs;
      },
      retryMs: countsMs,
      complaint: 'counts of writes cannot be stored, and are lost',
      firstMs: countsMs,
    }),
  ];
}

export function tenantConfigService(options: ServiceOptions): ServiceSchema {
  const { db, settings, metrics } = options;
  const documents = documentsOf({ db, settings }, withinQuotas);
  const { risk, projects, bounds, budgets, freezes } = documents;
  const { changePolicy, eventDestinations, notifications } = documents;
  const changeSets = tenantChangeSetOptions(db, Object.values(documents));
  const writes = trialsOf(db, documents);
  let loops: readonly BackgroundLoop[] = [];

  const handlers = {
    ...tenantActions(db, settings),
    ...erasingActions(db, settings),
    ...memberActions(db, settings),
    ...deciderActions(db),
    ...scimActions(db, settings),
    ...scimGroupActions(db, settings),
    ...directoryGroupActions(db),
    ...visitActions(db),
    ...accessReportActions(db, settings),
    ...serviceAccountActions(db, settings),

    'tenant-config.risk.get': risk.get,
    'tenant-config.risk.put': writes.risk.put,
    'tenant-config.risk.patch': writes.risk.patch,

    ...handlersOf('tenant-config.agents', writes.agents),
    'tenant-config.agents.list': listing<AgentConfig>(db, AgentEntity),

    ...handlersOf('tenant-config.services', writes.services),
    'tenant-config.services.list': listing<ServiceInstance>(db, ServiceInstanceEntity),

    ...handlersOf('tenant-config.projects', projects),
    'tenant-config.projects.list': listing<ProjectConfig>(db, ProjectEntity),

    ...boundActions(db, bounds),

    ...overTimeActions(db, budgets, freezes),

    ...handlersOf('tenant-config.change-policy', changePolicy),

    ...handlersOf('tenant-config.event-destinations', eventDestinations),
    ...eventDestinationActions(db, settings),

    'tenant-config.notifications.get': notifications.get,
    'tenant-config.notifications.put': notifications.put,
    'tenant-config.notifications.patch': notifications.patch,
    ...notificationActions(db, settings),

    ...violationActions(db),
    ...historyActions(db),
    ...managedFieldActions(db),
    ...temporaryChangeActions(db, Object.values(documentsOf({ db, settings }, withoutQuotas))),
    ...rollbackAction(db, Object.values(documents)),

    ...tenantChangeSets(changeSets),
    ...proposedActions(changeSets),

    ...layerActions(db),
    ...contextActions(db),
    ...usageActions(db, settings),
    ...writeCountActions(db),
  };
  const writeCounts = new WriteCounts();
  const lifecycle = {
    async started({ broker, call }: Started): Promise<void> {
      const announce = (): void => void broker.emit(erasingEvent, {}, [...erasingServices]);
      loops = startLoops({ ...options, call, announce, writeCounts });
      showChangeSets(metrics, 'tenants', db, ChangeSetEntity);
      showTemporaryChanges(metrics, db);
    },
    async stopped(): Promise<void> {
      await Promise.all(loops.map((loop) => loop.stop()));
    },
  };
  const counted = counting(
    withProposals(takingTurns(searching, handlers), changeSets),
    writeCounts,
  );
  return serviceOf('tenant-config', counted, lifecycle);
}
