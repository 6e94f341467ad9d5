/**
 * global-config: global entries and service types, the platform's two layers of every effective
 * configuration, its bounds, budgets and freezes, and
 * their ConfigurationHistory.
 *
 * | document     | actions         | config_type           | cache key               | audit event             | table                         |
 * | ------------ | --------------- | --------------------- | ----------------------- | ----------------------- | ----------------------------- |
 * | global entry | `entries`       | `global_config`       | `global_…`              | `config.global.…`       | `global_configurations`       |
 * | service type | `service-types` | `service_type_config` | `service_type_…_…`      | `config.service_type.…` | `service_type_configurations` |
 * | bounds       | `bounds`        | `bounds_config`       | `bounds_platform`       | `config.bounds.…`       | `bounds`                      |
 * | budgets      | `budgets`       | `budgets_config`      | `budgets_platform`      | `config.budgets.…`      | `budgets`                     |
 * | freezes      | `freezes`       | `freezes_config`      | `freezes_platform`      | `config.freezes.…`      | `freezes`                     |
 */
import type { ServiceSchema } from 'moleculer';
import type { DataSource } from 'typeorm';
import { serviceOf } from '../../shared/contract-runtime/service.ts';
import { boundActions } from './actions/bounds.ts';
import { changeActions } from './actions/changes.ts';
import { entryActions } from './actions/entries.ts';
import { historyActions } from './actions/history.ts';
import { layerActions } from './actions/layers.ts';
import { overTimeActions } from './actions/limits-over-time.ts';
import { planActions, Planner } from './actions/plan.ts';
import { rollbackAction } from './actions/rollback.ts';
import { serviceTypeActions } from './actions/service-types.ts';

export function globalConfigService({ db }: { readonly db: DataSource }): ServiceSchema {
  const planner = new Planner(db);
  return serviceOf('global-config', {
    ...entryActions(db, planner),
    ...serviceTypeActions(db, planner),
    ...boundActions(db, planner),
    ...overTimeActions(db, planner),
    ...planActions(planner),
    ...historyActions(db),
    ...rollbackAction(db, planner),
    ...layerActions(db),
    ...changeActions(db),
  });
}
