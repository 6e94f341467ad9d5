/** The tables of global-config. Values are kept as `json`, which keeps them as sent. */
import type { PlatformConfigType } from '../../shared/contracts/history.ts';
import type { RolloutState, StoredRollout } from '../../shared/contracts/rollouts.ts';
import type { ServiceType } from '../../shared/contracts/service-types.ts';
import {
  changeSetEntity,
  changeSetTable,
  countedChangeSets,
  remindedChangeSets,
  timedChangeSets,
  waitingChangeSets,
} from '../../shared/change-sets/schema.ts';
import { migration, type Schema } from '../../shared/database/open.ts';
import {
  flag,
  int8,
  json,
  nullable,
  primary,
  text,
  textOf,
  time,
  tablesOf,
  type RowOf,
} from '../../shared/database/table.ts';
import { keyChangesOfHistory, keyChangesTable } from '../../shared/documents/key-changes.ts';
import { historyColumns } from '../../shared/documents/history.ts';

const schema = 'global_config';
const { table, entities } = tablesOf(schema);
const written = { revision: int8, updated_by: text, updated_at: time };

export const GlobalEntity = table('global_configurations', {
  config_key: primary(text),
  config_value: json(),
  is_public: flag,
  requires_restart: flag,
  data_type: nullable(textOf<'json'>()),
  ...written,
});
export type GlobalRow = RowOf<typeof GlobalEntity>;

export const ServiceTypeEntity = table('service_type_configurations', {
  service_type: primary(textOf<ServiceType['service_type']>()),
  configuration_name: primary(text),
  default_settings: json<ServiceType['default_settings']>(),
  scaling_limits: json<ServiceType['scaling_limits']>(),
  monitoring_defaults: json<ServiceType['monitoring_defaults']>(),
  is_active: flag,
  ...written,
});
export type ServiceTypeRow = RowOf<typeof ServiceTypeEntity>;

/** A table with one row: a document that the platform has one of. */
const single = (name: string) => table(name, { id: primary(text), document: json(), ...written });
export type SingleRow = RowOf<ReturnType<typeof single>>;
export const BoundsEntity = single('bounds');
export const BudgetsEntity = single('budgets');
export const FreezesEntity = single('freezes');
export const ChangePolicyEntity = single('change_policies');
export const EventDestinationsEntity = single('event_destinations');

export const ChangeSetEntity = changeSetEntity(table);

/** A rollout, with what it is found by. */
export const RolloutEntity = table('rollouts', {
  id: primary(text),
  document: json<StoredRollout>(),
  state: textOf<RolloutState>(),
  created_at: time,
  ...written,
});
export type RolloutRow = RowOf<typeof RolloutEntity>;

/**
 * ConfigurationHistory of the platform: one row for each of its revisions since the history began.
 * What stood then is in `history_baseline`, when that was in the one row of `history_beginning`. A
 * write that leaves no row, by a node of an earlier release, begins the history again, so that it is
 * whole from its beginning on.
 */
export const HistoryEntity = table('configuration_history', historyColumns<PlatformConfigType>());
export type HistoryRow = RowOf<typeof HistoryEntity>;

/**
 * The four managed service types. They are rows, so that an operator changes them without a
 * release.
 */
const seeds = [
  [
    'cloud_run',
    { memory: '512Mi', cpu: '1', concurrency: 80 },
    { min_instances: 0, max_instances: 100 },
    { cpu_utilization: 0.8, error_rate: 0.01 },
  ],
  [
    'cloud_functions',
    { memory: '256Mi', timeout_seconds: 60 },
    { min_instances: 0, max_instances: 100 },
    { error_rate: 0.01, execution_seconds: 30 },
  ],
  [
    'cloud_sql',
    { tier: 'db-custom-1-3840', availability: 'zonal' },
    { min_instances: 1, max_instances: 10 },
    { cpu_utilization: 0.8, disk_utilization: 0.85 },
  ],
  [
    'kubernetes_engine',
    { machine_type: 'e2-standard-4', autoscaling: true },
    { min_instances: 1, max_instances: 100 },
    { cpu_utilization: 0.8, memory_utilization: 0.85 },
  ],
] as const;

/** The table behind a `single`. */
const singleTable = (name: string): string => `
  CREATE TABLE global_config.${name} (
    id text PRIMARY KEY, document json NOT NULL, revision int8 NOT NULL, updated_by text NOT NULL,
    updated_at timestamptz NOT NULL
  )`;

/**
 * The tables with a column `document`, by what the history calls their documents, in the order in
 * which migrations added them.
 */
const documentTables = {
  bounds_config: 'bounds',
  budgets_config: 'budgets',
  freezes_config: 'freezes',
  change_policy_config: 'change_policies',
  rollout_config: 'rollouts',
  event_destinations_config: 'event_destinations',
} as const;

/**
 * The function that begins the history again, with the documents that there are by then, up to
 * `last`. Its caller has locked the platform's counter, as every write of the platform does: none is
 * half done. What is stored has been so since the counter's time; to the millisecond, as in the
 * history.
 */
function beginHistory(last: keyof typeof documentTables): string {
  const known = Object.entries(documentTables);
  const baselines = known
    .slice(0, known.findIndex(([type]) => type === last) + 1)
    .map(
      ([type, table]) =>
        `SELECT '${type}', id, document, revision, updated_by, updated_at FROM global_config.${table}`,
    );
  return `
  CREATE OR REPLACE FUNCTION global_config.begin_history() RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    DELETE FROM global_config.history_beginning;
    INSERT INTO global_config.history_beginning (revision, at)
    SELECT revision, date_trunc('milliseconds', changed_at) FROM strata.revisions WHERE scope = 'platform';
    DELETE FROM global_config.history_baseline;
    INSERT INTO global_config.history_baseline
    SELECT 'global_config', config_key,
      CASE WHEN data_type IS NULL
        THEN json_build_object('config_key', config_key, 'config_value', config_value, 'is_public', is_public,
          'requires_restart', requires_restart)
        ELSE json_build_object('config_key', config_key, 'config_value', config_value, 'is_public', is_public,
          'requires_restart', requires_restart, 'data_type', data_type)
      END,
      revision, updated_by, updated_at
    FROM global_config.global_configurations
    UNION ALL
    SELECT 'service_type_config', service_type || '/' || configuration_name,
      json_build_object('service_type', service_type, 'configuration_name', configuration_name,
        'default_settings', default_settings, 'scaling_limits', scaling_limits,
        'monitoring_defaults', monitoring_defaults, 'is_active', is_active),
      revision, updated_by, updated_at
    FROM global_config.service_type_configurations
    UNION ALL ${baselines.join(' UNION ALL ')};
  END $$`;
}

/** Begins the history again after a write that left no row in it, by a node of an earlier release. */
const hasHistory = (table: string): string => `
  CREATE CONSTRAINT TRIGGER has_history AFTER INSERT OR UPDATE OR DELETE ON global_config.${table}
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION global_config.begin_history_anew()`;

export const globalConfigSchema: Schema = {
  schema,
  entities,
  migrations: [
    migration(
      'GlobalConfiguration1763700000002',
      `CREATE TABLE global_config.global_configurations (
      config_key text PRIMARY KEY, config_value json NOT NULL, is_public boolean NOT NULL, requires_restart boolean NOT NULL, data_type text,
      revision int8 NOT NULL, updated_by text NOT NULL, updated_at timestamptz NOT NULL
    )`,
      `CREATE TABLE global_config.service_type_configurations (
      service_type text NOT NULL, configuration_name text NOT NULL, default_settings json NOT NULL, scaling_limits json NOT NULL,
      monitoring_defaults json NOT NULL, is_active boolean NOT NULL, revision int8 NOT NULL, updated_by text NOT NULL,
      updated_at timestamptz NOT NULL, PRIMARY KEY (service_type, configuration_name)
    )`,
      ...seeds.map(
        ([type, settings, limits, monitoring]) =>
          `INSERT INTO global_config.service_type_configurations VALUES ('${type}', 'default', '${JSON.stringify(settings)}', '${JSON.stringify(limits)}',
       '${JSON.stringify(monitoring)}', true, 0, 'system', now())`,
      ),
    ),
    migration('GlobalConfigBounds1763700000701', singleTable('bounds')),
    migration(
      'GlobalConfigHistory1763700000801',
      `CREATE TABLE global_config.configuration_history (
        revision int8 PRIMARY KEY, config_type text NOT NULL, resource_id text NOT NULL, action text NOT NULL,
        changed_by text NOT NULL, changed_at timestamptz NOT NULL, reason text, request_id text, before json, after json
      )`,
      'CREATE INDEX history_resource ON global_config.configuration_history (config_type, resource_id, revision)',
      'CREATE INDEX history_changed_at ON global_config.configuration_history (changed_at, revision)',
      `CREATE TABLE global_config.history_beginning (
        one boolean PRIMARY KEY DEFAULT true CHECK (one), revision int8 NOT NULL, at timestamptz NOT NULL
      )`,
      `CREATE TABLE global_config.history_baseline (
        config_type text NOT NULL, resource_id text NOT NULL, document json NOT NULL, revision int8 NOT NULL,
        updated_by text NOT NULL, updated_at timestamptz NOT NULL, PRIMARY KEY (config_type, resource_id)
      )`,
      beginHistory('bounds_config'),
      `-- A node of the release before writes documents without their history, while nodes are replaced one after the other.
      CREATE FUNCTION global_config.begin_history_anew() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        PERFORM 1 FROM strata.revisions r WHERE scope = 'platform' AND (
          EXISTS (SELECT FROM global_config.configuration_history h WHERE h.revision = r.revision)
          OR EXISTS (SELECT FROM global_config.history_beginning b WHERE b.revision = r.revision));
        IF NOT FOUND THEN
          PERFORM global_config.begin_history();
        END IF;
        RETURN NULL;
      END $$`,
      ...['global_configurations', 'service_type_configurations', 'bounds'].map(hasHistory),
      "SELECT FROM strata.revisions WHERE scope = 'platform' FOR UPDATE",
      'SELECT global_config.begin_history()',
    ),
    migration(
      'GlobalConfigPurges1764900000002',
      `-- Documents that were left behind by revisions from \`since\` on and before \`below\` are not in the history any more.
      CREATE TABLE global_config.purges (
        config_type text NOT NULL, resource_id text NOT NULL, since int8 NOT NULL, below int8 NOT NULL,
        purged_by text NOT NULL, purged_at timestamptz NOT NULL, reason text NOT NULL, PRIMARY KEY (config_type, resource_id)
      )`,
    ),
    migration('GlobalConfigKeyChanges1764900000101', ...keyChangesTable(schema, '')),
    migration('GlobalConfigKeyChanges1764900000102', keyChangesOfHistory(schema, '')),
    migration(
      'GlobalConfigLimitsOverTime1765100000002',
      ...['budgets', 'freezes'].map(singleTable),
      beginHistory('freezes_config'),
      ...['budgets', 'freezes'].map(hasHistory),
    ),
    migration(
      'GlobalConfigChangePolicies1765400000003',
      singleTable('change_policies'),
      beginHistory('change_policy_config'),
      hasHistory('change_policies'),
    ),
    migration(
      'GlobalConfigChangeSets1765400000013',
      ...changeSetTable(schema),
      'ALTER TABLE global_config.configuration_history ADD COLUMN changeset_id uuid',
    ),
    migration(
      'GlobalConfigRollouts1765500000013',
      `CREATE TABLE global_config.rollouts (
        id text PRIMARY KEY, document json NOT NULL, state text NOT NULL, created_at timestamptz NOT NULL,
        revision int8 NOT NULL, updated_by text NOT NULL, updated_at timestamptz NOT NULL
      )`,
      'CREATE INDEX rollouts_newest ON global_config.rollouts (created_at, id)',
      `CREATE INDEX rollouts_open ON global_config.rollouts (state) WHERE state IN ('planned', 'running', 'held')`,
      beginHistory('rollout_config'),
      hasHistory('rollouts'),
    ),
    migration(
      'GlobalConfigBreakGlass1765500000023',
      'ALTER TABLE global_config.configuration_history ADD COLUMN break_glass boolean NOT NULL DEFAULT false',
    ),
    migration(
      'GlobalConfigRolloutRuns1765600000021',
      `CREATE TABLE global_config.rollout_runs (
        rollout_id text PRIMARY KEY REFERENCES global_config.rollouts ON DELETE CASCADE,
        turn uuid NOT NULL, due_at timestamptz NOT NULL, answers json NOT NULL
      )`,
    ),
    migration(
      'GlobalConfigChangeSetsWatched1765700000032',
      ...waitingChangeSets(schema),
      ...countedChangeSets(schema),
    ),
    migration(
      'GlobalConfigEventDestinations1766100000001',
      singleTable('event_destinations'),
      beginHistory('event_destinations_config'),
      hasHistory('event_destinations'),
    ),
    migration('GlobalConfigChangeSetReminders1766200000002', ...remindedChangeSets(schema)),
    migration('GlobalConfigChangeSetTimes1766900000002', ...timedChangeSets(schema)),
  ],
};
