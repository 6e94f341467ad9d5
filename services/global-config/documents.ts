import { platformScope } from '../../shared/contracts/revision-scopes.ts';
import {
  StoredGlobalEntry,
  type GlobalEntryAddress,
} from '../../shared/contracts/global-entries.ts';
import { ServiceType, type ServiceTypeAddress } from '../../shared/contracts/service-types.ts';
import type { DocumentKind, Stored } from '../../shared/documents/document.ts';
import { GlobalEntity, ServiceTypeEntity, type GlobalRow, type ServiceTypeRow } from './schema.ts';

const platform = {
  scope: () => platformScope,
  tenantId: () => null,
  prepare: async () => undefined,
} as const;

export const entryOf = (row: GlobalRow): Stored<StoredGlobalEntry> => ({
  document: {
    config_key: row.config_key,
    config_value: row.config_value,
    is_public: row.is_public,
    requires_restart: row.requires_restart,
    ...(row.data_type === null ? {} : { data_type: row.data_type as 'json' }),
  },
  revision: row.revision,
  updated_by: row.updated_by,
  updated_at: row.updated_at.toISOString(),
});

export const entryKind: DocumentKind<GlobalEntryAddress, StoredGlobalEntry> = {
  ...platform,
  resource: 'global',
  schema: StoredGlobalEntry,
  target: ({ key }) => key,
  async read(manager, { key }) {
    const row = await manager.findOneBy(GlobalEntity, { config_key: key });
    return row && entryOf(row);
  },
  async save(manager, { key }, row) {
    if (row === null) await manager.delete(GlobalEntity, { config_key: key });
    // A JSON null is a value, which the mapper would write as SQL NULL.
    else
      await manager.query(
        `INSERT INTO global_config.global_configurations VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
       ON CONFLICT (config_key) DO UPDATE SET (config_value, is_public, requires_restart, data_type, revision, updated_by, updated_at)
         = ROW (excluded.config_value, excluded.is_public, excluded.requires_restart, excluded.data_type, excluded.revision, excluded.updated_by, excluded.updated_at)`,
        [
          key,
          JSON.stringify(row.document.config_value),
          row.document.is_public,
          row.document.requires_restart,
          row.document.data_type ?? null,
          row.revision,
          row.updated_by,
          row.updated_at,
        ],
      );
  },
  /** What is not said: not public, no restart. */
  settle: (draft, { key }) => ({
    config_key: key,
    is_public: false,
    requires_restart: false,
    ...draft,
  }),
  check: (next, { key }) =>
    next.config_key === key ? [] : [{ path: '/config_key', message: 'is not the key of the path' }],
  restarts: (document) => document.requires_restart,
};

export const serviceTypeOf = ({
  revision,
  updated_by,
  updated_at,
  ...document
}: ServiceTypeRow): Stored<ServiceType> => ({
  document: document as ServiceType,
  revision,
  updated_by,
  updated_at: updated_at.toISOString(),
});

export const serviceTypeKind: DocumentKind<ServiceTypeAddress, ServiceType> = {
  ...platform,
  resource: 'service_type',
  schema: ServiceType,
  target: ({ service_type: type, configuration_name: name }) => `${type}/${name}`,
  async read(manager, { service_type, configuration_name }) {
    const row = await manager.findOneBy(ServiceTypeEntity, { service_type, configuration_name });
    return row && serviceTypeOf(row);
  },
  async save(manager, { service_type, configuration_name }, row) {
    if (row === null) await manager.delete(ServiceTypeEntity, { service_type, configuration_name });
    else
      await manager.upsert(
        ServiceTypeEntity,
        {
          ...row.document,
          revision: row.revision,
          updated_by: row.updated_by,
          updated_at: new Date(row.updated_at),
        } as never,
        ['service_type', 'configuration_name'],
      );
  },
  settle: (draft, { service_type, configuration_name }) => ({
    default_settings: {},
    scaling_limits: {},
    monitoring_defaults: {},
    is_active: true,
    service_type,
    configuration_name,
    ...draft,
  }),
  check: (next, path) => [
    ...(['service_type', 'configuration_name'] as const)
      .filter((field) => next[field] !== path[field])
      .map((field) => ({ path: `/${field}`, message: `is not the ${field} of the path` })),
    ...((next.scaling_limits.min_instances ?? 0) <= (next.scaling_limits.max_instances ?? Infinity)
      ? []
      : [{ path: '/scaling_limits/min_instances', message: 'is more than max_instances' }]),
  ],
};
