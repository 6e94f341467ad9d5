/**
 * Service types: defaults and limits of a kind of cloud service, such as `cloud_run`. The active
 * row named `default` is the layer `service_type` of an effective configuration, and its
 * scaling_limits bound every service instance of the type.
 */
import { Type, type Static } from 'typebox';
import { internal } from './contract.ts';
import { listing } from './envelopes.ts';
import { documentContracts, named } from './document-contracts.ts';
import {
  described,
  FreeForm,
  InstanceCount,
  Optional,
  ServiceTypeName,
  Slug,
  strict,
  StrictObject,
  TitledObject,
} from './fields.ts';
import { ofPlatform, platformReaders } from './platform-document.ts';
import { platformScope } from './revision-scopes.ts';

/**
 * The configuration_name that is looked up; rows with other names are kept for an operator to
 * switch to.
 */
export const defaultConfiguration = 'default';

const address = {
  service_type: ServiceTypeName,
  configuration_name: Type.String({
    pattern: '^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$',
    description: 'Name of the row, without an underscore; `default` is the one looked up',
    examples: [defaultConfiguration],
  }),
};
const fields = {
  default_settings: described(FreeForm, 'Values of the layer `service_type`', {
    http_client_timeout_seconds: 20,
  }),
  scaling_limits: Type.Object(
    {
      min_instances: Type.Optional(described(InstanceCount, 'Fewest instances', 1)),
      max_instances: Type.Optional(described(InstanceCount, 'Most instances', 20)),
    },
    {
      additionalProperties: true,
      title: 'ScalingLimits',
      description: 'min_instances and max_instances bound every service instance',
    },
  ),
  monitoring_defaults: described(FreeForm, 'Defaults for monitoring, stored as they are'),
  is_active: Type.Boolean({ description: 'Only active rows are selected' }),
};
export const ServiceType = TitledObject(
  'ServiceType',
  'Defaults and limits of a type of cloud service',
  { ...address, ...fields },
);
export type ServiceType = Static<typeof ServiceType>;

export interface ServiceTypeAddress {
  readonly service_type: string;
  readonly configuration_name: string;
}
/** Unambiguous, since a configuration_name has no underscore. */
export const serviceTypeKey = ({ service_type, configuration_name }: ServiceTypeAddress): string =>
  `service_type_${service_type}_${configuration_name}`;

const type = documentContracts({
  ...ofPlatform,
  title: 'a service-type configuration',
  url: '/config/service-types/{service_type}/{configuration_name}',
  path: address,
  document: ServiceType,
  body: Type.Partial(ServiceType, {
    ...strict,
    title: 'ServiceTypeBody',
    description: 'A service type, as written',
  }),
  key: serviceTypeKey,
  visible: ({ document }, { platform }) => platform || document.is_active,
});

export const serviceTypeContracts = {
  'global-config.service-types.list': listing({
    summary: 'List service-type configurations',
    rest: 'GET /config/service-types',
    access: platformReaders,
    keyScope: 'config:read',
    items: ServiceType,
  }),
  ...named('global-config.service-types', type),
  'global-config.service-types.active': internal({
    summary: 'The managed service types with their limits: the active rows named default',
    result: StrictObject({
      items: Type.Array(
        StrictObject({
          service_type: Slug,
          scaling_limits: fields.scaling_limits,
          updated_by: Type.String(),
        }),
      ),
      stale: Optional.Literal(true),
    }),
    cache: {
      cache: 'dynamic_config_service',
      key: () => 'service_types_active',
      revisionScopes: () => [platformScope],
    },
  }),
} as const;
