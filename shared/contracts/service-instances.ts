/**
 * Service instances: what a tenant sets for one of its services, and the layer `service_instance`
 * of the effective configuration.
 */
import { Type, type Static } from 'typebox';
import { dryRun } from './contract.ts';
import { documentContracts, named } from './document-contracts.ts';
import { effectiveTrials } from './effective-trial.ts';
import {
  described,
  FreeForm,
  InstanceCount,
  Labels,
  Optional,
  ProjectId,
  ServiceId,
  ServiceTypeName,
  Text,
  TitledObject,
} from './fields.ts';
import { channels } from './notifier.ts';
import {
  ofTenant,
  operators,
  tenantListing,
  tenantPath,
  type TenantAddress,
} from './tenant-document.ts';
import { temporary } from './temporary-changes.ts';
import { BusinessHours, WeeklyHours } from './weekly-hours.ts';

/** A list of services shows them all. */
const mostLabels = 64;

const fields = {
  service_name: Type.Optional(Text('Display name', 'Checkout')),
  owner: Type.Optional(Text('Who answers for it: a team or a person', 'team-payments')),
  labels: Type.Optional(
    Labels('What it is found by', { tier: 'critical' }, { maxProperties: mostLabels }),
  ),
  project_id: Type.Optional(ProjectId),
  custom_thresholds: Type.Optional(
    described(FreeForm, 'Own thresholds, stored as they are', { latency_ms: 250 }),
  ),
  min_instances: Type.Optional(described(InstanceCount, 'Fewest instances', 2)),
  max_instances: Type.Optional(described(InstanceCount, 'Most instances', 8)),
  monitoring_enabled: Optional.Boolean({ description: 'It is monitored' }),
  automation_enabled: Optional.Boolean({ description: 'Automation may act on it' }),
  maintenance_windows: Optional.Array(WeeklyHours, {
    maxItems: 100,
    description: 'When it is maintained',
  }),
  maintenance_windows_only: Optional.Boolean({
    description:
      'Automation acts on it within its `maintenance_windows` only; false by default, and then they are information',
  }),
  business_hours: Type.Optional(BusinessHours),
  notification_channels: Optional.Array(Text('Name of a channel'), {
    maxItems: 100,
    description: `Where approvals about it are announced: \`${channels.join('`, `')}\`; everywhere where it names none of these. Other names are kept as they are`,
  }),
};
export const ServiceInstance = TitledObject(
  'ServiceInstance',
  'What a tenant sets for one of its services: the layer `service_instance`',
  { service_id: ServiceId, service_type: ServiceTypeName, ...fields },
);
export type ServiceInstance = Static<typeof ServiceInstance>;

/** What its layer holds, of a document or of its schema: all but what it is named and found by. */
export const instanceValues = <Fields extends Readonly<Record<string, unknown>>>({
  service_id: _id,
  service_name: _name,
  service_type: _type,
  owner: _owner,
  labels: _labels,
  project_id: _project,
  ...values
}: Fields) => values;

export interface ServiceInstanceAddress extends TenantAddress {
  readonly service_id: string;
}
export const serviceInstanceKey = ({ tenant_id, service_id }: ServiceInstanceAddress): string =>
  `service_instance_${tenant_id}_${service_id}`;

const service = documentContracts({
  ...ofTenant,
  trial: { ...dryRun, ...effectiveTrials.services, ...temporary },
  title: "a service instance's overrides",
  url: '/tenants/{tenant_id}/services/{service_id}',
  path: { ...tenantPath, service_id: ServiceId },
  document: ServiceInstance,
  /** A PATCH or PUT of an existing instance may leave its type out. */
  body: TitledObject('ServiceInstanceBody', 'A service instance, as written', {
    service_id: Type.Optional(ServiceId),
    service_type: Type.Optional(ServiceTypeName),
    ...fields,
  }),
  /** Which fields are an administrator's alone, a rule of the service says. */
  writers: { level: 'tenant', roles: operators },
  key: serviceInstanceKey,
});

export const serviceInstanceContracts = {
  ...named('tenant-config.services', service),
  /** Lets the lower layers show through again; for administrators only. */
  'tenant-config.services.delete': { ...service.delete, access: ofTenant.writers },
  'tenant-config.services.list': tenantListing(
    "the tenant's service instances",
    '/tenants/{tenant_id}/services',
    ServiceInstance,
  ),
} as const;
