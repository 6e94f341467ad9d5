import { Type } from 'typebox';
import {
  action,
  dryRun,
  Page,
  page,
  platformScope,
  read,
  type RevisionScope,
  Resource,
  Slug,
  Timestamp,
  write,
  Written,
} from './contract.ts';

const strict = { additionalProperties: false } as const;
const revisionScopes = (): RevisionScope[] => [platformScope];
const Free = Type.Record(Type.String(), Type.Unknown());

// ---------------------------------------------------------------- global entries

const keyPath = {
  key: Type.String({ pattern: '^[A-Za-z0-9._-]{1,128}$', description: 'config_key' }),
};
const globalKey = ({ key }: { key: string }): string => `global_${key}`;
const entryFields = {
  config_value: Type.Unknown({ description: 'Any JSON, kept exactly as sent' }),
  is_public: Type.Boolean({ description: 'Tenant-scoped callers may read it' }),
  requires_restart: Type.Boolean({
    description: 'A change takes effect after a restart or reload',
  }),
  data_type: Type.Optional(Type.Literal('json')),
};
export const GlobalEntry = Type.Object(
  {
    config_key: keyPath.key,
    ...entryFields,
    revision: Type.Integer(),
    updated_by: Type.String(),
    updated_at: Timestamp,
  },
  strict,
);
const GlobalBody = Type.Object(
  {
    config_value: entryFields.config_value,
    is_public: Type.Optional(entryFields.is_public),
    requires_restart: Type.Optional(entryFields.requires_restart),
    data_type: entryFields.data_type,
  },
  strict,
);

// ---------------------------------------------------------------- service types

export const ServiceTypeDocument = Type.Object(
  {
    service_type: Slug,
    configuration_name: Type.String({
      pattern: '^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$',
      description: 'No underscore; `default` is the one looked up',
    }),
    default_settings: Free,
    scaling_limits: Type.Object(
      {
        min_instances: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
        max_instances: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
      },
      {
        additionalProperties: true,
        description: 'min_instances and max_instances bound every service instance',
      },
    ),
    monitoring_defaults: Free,
    is_active: Type.Boolean({ description: 'Only active rows are selected' }),
  },
  strict,
);
const {
  service_type,
  configuration_name,
  default_settings,
  scaling_limits,
  monitoring_defaults,
  is_active,
} = ServiceTypeDocument.properties;
const ServiceTypeBody = Type.Object(
  {
    service_type: Type.Optional(service_type),
    configuration_name: Type.Optional(configuration_name),
    default_settings: Type.Optional(default_settings),
    scaling_limits: Type.Optional(scaling_limits),
    monitoring_defaults: Type.Optional(monitoring_defaults),
    is_active: Type.Optional(is_active),
  },
  strict,
);
const typePath = { service_type, configuration_name };
const typeKey = (params: { service_type: string; configuration_name: string }): string =>
  `service_type_${params.service_type}_${params.configuration_name}`;
const typeUrl = '/config/service-types/{service_type}/{configuration_name}';

const anyone = { level: 'authenticated', services: true } as const;
const platform = { level: 'platform_admin' } as const;
const MergePatch = Type.Record(Type.String(), Type.Unknown());

export const globalConfigContracts = {
  'global-config.entries.get': read({
    summary: 'Read a global entry',
    rest: 'GET /config/global/{key}',
    access: anyone,
    keyScope: 'config:read',
    path: keyPath,
    result: Resource(GlobalEntry),
    response: 'resource',
    visible: ({ document }, { platform }) => platform || document.is_public,
    cache: { cache: 'configuration_service', key: globalKey, revisionScopes },
  }),
  'global-config.entries.list': action({
    summary: 'List global entries',
    rest: 'GET /config/global',
    access: platform,
    keyScope: 'platform:read',
    query: page,
    result: Page(GlobalEntry),
    response: 'list',
  }),
  'global-config.entries.put': write({
    summary: 'Create or replace a global entry',
    rest: 'PUT /config/global/{key}',
    access: platform,
    keyScope: 'platform:write',
    path: keyPath,
    query: dryRun,
    body: GlobalBody,
    result: Written(GlobalEntry),
    drops: (params) => [globalKey(params)],
  }),
  'global-config.entries.patch': write({
    summary: 'Change parts of a global entry (JSON merge patch, RFC 7396)',
    rest: 'PATCH /config/global/{key}',
    access: platform,
    keyScope: 'platform:write',
    path: keyPath,
    query: dryRun,
    body: MergePatch,
    result: Written(GlobalEntry),
    drops: (params) => [globalKey(params)],
  }),
  'global-config.entries.delete': write({
    summary: 'Remove a global entry',
    rest: 'DELETE /config/global/{key}',
    access: platform,
    keyScope: 'platform:write',
    path: keyPath,
    query: dryRun,
    result: Written(GlobalEntry),
    drops: (params) => [globalKey(params)],
  }),

  'global-config.service-types.list': action({
    summary: 'List service-type configurations',
    rest: 'GET /config/service-types',
    access: anyone,
    keyScope: 'config:read',
    query: page,
    result: Page(ServiceTypeDocument),
    response: 'list',
  }),
  'global-config.service-types.get': read({
    summary: 'Read a service-type configuration',
    rest: `GET ${typeUrl}`,
    access: anyone,
    keyScope: 'config:read',
    path: typePath,
    result: Resource(ServiceTypeDocument),
    response: 'resource',
    visible: ({ document }, { platform }) => platform || document.is_active,
    cache: { cache: 'configuration_service', key: typeKey, revisionScopes },
  }),
  'global-config.service-types.put': write({
    summary: 'Create or replace a service-type configuration',
    rest: `PUT ${typeUrl}`,
    access: platform,
    keyScope: 'platform:write',
    path: typePath,
    query: dryRun,
    body: ServiceTypeBody,
    result: Written(ServiceTypeDocument),
    drops: (params) => [typeKey(params)],
  }),
  'global-config.service-types.patch': write({
    summary: 'Change parts of a service-type configuration (JSON merge patch, RFC 7396)',
    rest: `PATCH ${typeUrl}`,
    access: platform,
    keyScope: 'platform:write',
    path: typePath,
    query: dryRun,
    body: MergePatch,
    result: Written(ServiceTypeDocument),
    drops: (params) => [typeKey(params)],
  }),
  'global-config.service-types.delete': write({
    summary: 'Remove a service-type configuration',
    rest: `DELETE ${typeUrl}`,
    access: platform,
    keyScope: 'platform:write',
    path: typePath,
    query: dryRun,
    result: Written(ServiceTypeDocument),
    drops: (params) => [typeKey(params)],
  }),
  /** The managed service types: active `default` rows. */
  'global-config.service-types.active': action({
    summary: 'The managed service types with their limits',
    access: { level: 'internal' },
    result: Type.Object(
      {
        items: Type.Array(
          Type.Object({ service_type: Slug, scaling_limits, updated_by: Type.String() }, strict),
        ),
        stale: Type.Optional(Type.Literal(true)),
      },
      strict,
    ),
    cache: {
      cache: 'dynamic_config_service',
      key: () => 'service_types_active',
      revisionScopes: () => [platformScope],
    },
  }),

  'global-config.layers': action({
    summary: 'The platform layers of one effective configuration, from one snapshot',
    access: { level: 'internal' },
    query: { service_types: Type.Optional(Type.Array(Slug)) },
    result: Type.Object(
      {
        revision: Type.Integer(),
        entries: Type.Array(Resource(GlobalEntry)),
        service_types: Type.Record(Type.String(), Resource(ServiceTypeDocument)),
      },
      strict,
    ),
  }),
} as const;
