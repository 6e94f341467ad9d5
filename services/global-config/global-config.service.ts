/**
 * global-config: global entries and service types, the platform's two layers of every effective
 * configuration, its bounds, budgets, freezes and event destinations, and
 * their ConfigurationHistory.
 *
 * | document     | actions         | config_type           | cache key               | audit event             | table                         |
 * | ------------ | --------------- | --------------------- | ----------------------- | ----------------------- | ----------------------------- |
 * | global entry | `entries`       | `global_config`       | `global_…`              | `config.global.…`       | `global_configurations`       |
 * | service type | `service-types` | `service_type_config` | `service_type_…_…`      | `config.service_type.…` | `service_type_configurations` |
 * | bounds       | `bounds`        | `bounds_config`       | `bounds_platform`       | `config.bounds.…`       | `bounds`                      |
 * | budgets      | `budgets`       | `budgets_config`      | `budgets_platform`      | `config.budgets.…`      | `budgets`                     |
 * | freezes      | `freezes`       | `freezes_config`      | `freezes_platform`      | `config.freezes.…`      | `freezes`                     |
 * | change_policy | `change-policy` | `change_policy_config` | `change_policy_platform` | `config.change_policy.…` | `change_policies`           |
 * | event_destinations | `event-destinations` | `event_destinations_config` | `event_destinations_platform` | `config.event_destinations.…` | `event_destinations` |
 * | rollout      | `rollouts`      | `rollout_config`      | none                    | `config.rollout.…`      | `rollouts`                    |
 */
import type { ServiceSchema } from 'moleculer';
import { showChangeSets } from '../../shared/change-sets/metrics.ts';
import { withProposals } from '../../shared/change-sets/proposing.ts';
import { startSchedule } from '../../shared/change-sets/schedule.ts';
import type { BackgroundLoop } from '../../shared/concurrency/background-loop.ts';
import {
  serviceOf,
  type ServiceOptions,
  type Started,
} from '../../shared/contract-runtime/service.ts';
import type { ParamsOf } from '../../shared/contracts/index.ts';
import { handlersOf } from '../../shared/documents/handlers.ts';

import { changeActions } from './actions/changes.ts';
import { platformChangeSetOptions, platformChangeSets } from './actions/change-sets.ts';
import { entryActions } from './actions/entries.ts';
import { eventDestinationActions } from './actions/event-destinations.ts';
import { historyActions } from './actions/history.ts';
import { layerActions } from './actions/layers.ts';
import { managedFieldActions } from './actions/managed-fields.ts';
import { appliedPlan, planActions, Planner } from './actions/plan.ts';
import { rollbackAction } from './actions/rollback.ts';
import { GateAnswers, showRollouts } from './actions/rollout-metrics.ts';
import { RolloutGates } from './actions/rollout-gates.ts';
import { startRunningRollouts } from './actions/rollout-runner.ts';
import { rolloutActions } from './actions/rollouts.ts';
import { serviceTypeActions } from './actions/service-types.ts';
import { platformDocuments } from './documents/platform-documents.ts';
import { ChangeSetEntity } from './schema.ts';

export function globalConfigService(options: ServiceOptions): ServiceSchema {
  const { db, settings, log, metrics } = options;
  const documents = platformDocuments(db, settings);
  const planner = new Planner(db, documents);
  const changeSets = platformChangeSetOptions(db, documents);
  const answers = new GateAnswers();
  let loops: BackgroundLoop[] = [];
  const handlers = {
    ...entryActions(db, documents, planner),
    ...planner.handlersOf('service-types', documents['service-types']),
    ...serviceTypeActions(db),
    ...planner.handlersOf('bounds', documents.bounds),
    ...planner.handlersOf('budgets', documents.budgets),
    ...planner.handlersOf('freezes', documents.freezes),
    ...handlersOf('global-config.change-policy', documents['change-policy']),
    ...handlersOf('global-config.event-destinations', documents['event-destinations']),
    ...eventDestinationActions(db, settings),
    ...platformChangeSets(changeSets),
    ...planActions(planner),
    ...historyActions(db, Object.values(documents)),
    ...managedFieldActions(db),
    ...rollbackAction(db, documents, planner),
    ...rolloutActions(db, planner, new RolloutGates(settings, log), answers.count),
    ...layerActions(db),
    ...changeActions(db),
  };
  const writtenAs: Parameters<typeof withProposals>[2] = {
    'global-config.plan.apply': (written, { body }) =>
      appliedPlan(written, (body as ParamsOf<'global-config.plan.apply'>['body']).items),
  };
  const lifecycle = {
    async started({ call }: Started): Promise<void> {
      const run = (_tenant: string | null, id: string) =>
        call('global-config.changesets.run', { changeset_id: id });
      const runRollout = (id: string) => call('global-config.rollouts.run', { rollout_id: id });
      loops = [
        startSchedule({ db, entity: ChangeSetEntity, service: 'global-config', log, run }),
        startRunningRollouts({ db, log, run: runRollout }),
      ];
      showRollouts(metrics, db, answers);
      showChangeSets(metrics, 'platform', db, ChangeSetEntity);
    },
    async stopped(): Promise<void> {
      await Promise.all(loops.map((loop) => loop.stop()));
    },
  };
  return serviceOf('global-config', withProposals(handlers, changeSets, writtenAs), lifecycle);
}
