/** The tables of global-config. Values are kept as `json`, which keeps them as sent. */
import { EntitySchema, type EntitySchemaColumnOptions } from 'typeorm';
import type { Bounds } from '../../shared/contracts/bounds.ts';
import type { ServiceType } from '../../shared/contracts/service-types.ts';
import { migration, type Schema } from '../../shared/database/open.ts';

export interface GlobalRow {
  config_key: string;
  config_value: unknown;
  is_public: boolean;
  requires_restart: boolean;
  data_type: 'json' | null;
  revision: number;
  updated_by: string;
  updated_at: Date;
}
export interface ServiceTypeRow extends ServiceType {
  revision: number;
  updated_by: string;
  updated_at: Date;
}

/** One row: the platform's bounds. */
export interface BoundsRow {
  id: string;
  document: Bounds;
  revision: number;
  updated_by: string;
  updated_at: Date;
}

const schema = 'global_config';
const text: EntitySchemaColumnOptions = { type: 'text' };
const key: EntitySchemaColumnOptions = { type: 'text', primary: true };
const json: EntitySchemaColumnOptions = { type: 'json' };
const flag: EntitySchemaColumnOptions = { type: 'boolean' };
const written = {
  revision: { type: 'int8' },
  updated_by: text,
  updated_at: { type: 'timestamptz' },
} as const;

export const GlobalEntity = new EntitySchema<GlobalRow>({
  name: 'GlobalConfiguration',
  tableName: 'global_configurations',
  schema,
  columns: {
    config_key: key,
    config_value: json,
    is_public: flag,
    requires_restart: flag,
    data_type: { ...text, nullable: true },
    ...written,
  },
});
export const ServiceTypeEntity = new EntitySchema<ServiceTypeRow>({
  name: 'ServiceTypeConfiguration',
  tableName: 'service_type_configurations',
  schema,
  columns: {
    service_type: key,
    configuration_name: key,
    default_settings: json,
    scaling_limits: json,
    monitoring_defaults: json,
    is_active: flag,
    ...written,
  },
});

export const BoundsEntity = new EntitySchema<BoundsRow>({
  name: 'PlatformBounds',
  tableName: 'bounds',
  schema,
  columns: { id: key, document: json, ...written },
});

/** The four managed service types. They are rows, so that an operator changes them without a release. */
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

export const globalConfigSchema: Schema = {
  schema,
  entities: [GlobalEntity, ServiceTypeEntity, BoundsEntity],
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
    migration(
      'GlobalConfigBounds1763700000701',
      `CREATE TABLE global_config.bounds (
        id text PRIMARY KEY, document json NOT NULL, revision int8 NOT NULL, updated_by text NOT NULL, updated_at timestamptz NOT NULL
      )`,
    ),
  ],
};
