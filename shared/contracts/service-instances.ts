/** Service instances: what a tenant sets for one of its services, and the layer `service_instance` of the effective configuration. */
import { Type, type Static } from 'typebox';
import { documentContracts } from './document-contracts.ts';
import { FreeForm, Identifier, InstanceCount, Slug, strict, Text } from './fields.ts';
import {
  configurationReaders,
  ofTenant,
  tenantListing,
  tenantPath,
  type TenantAddress,
} from './tenant-document.ts';
import { BusinessHours, WeeklyHours } from './weekly-hours.ts';

const fields = {
  service_name: Type.Optional(Text),
  project_id: Type.Optional(Identifier),
  custom_thresholds: Type.Optional(FreeForm),
  min_instances: Type.Optional(InstanceCount),
  max_instances: Type.Optional(InstanceCount),
  monitoring_enabled: Type.Optional(Type.Boolean()),
  automation_enabled: Type.Optional(Type.Boolean()),
  maintenance_windows: Type.Optional(Type.Array(WeeklyHours, { maxItems: 100 })),
  business_hours: Type.Optional(BusinessHours),
  notification_channels: Type.Optional(Type.Array(Text, { maxItems: 100 })),
};
export const ServiceInstance = Type.Object(
  { service_id: Identifier, service_type: Slug, ...fields },
  strict,
);
export type ServiceInstance = Static<typeof ServiceInstance>;

export interface ServiceInstanceAddress extends TenantAddress {
  readonly service_id: string;
}
export const serviceInstanceKey = ({ tenant_id, service_id }: ServiceInstanceAddress): string =>
  `service_instance_${tenant_id}_${service_id}`;

const service = documentContracts({
  ...ofTenant,
  title: "a service instance's overrides",
  url: '/tenants/{tenant_id}/services/{service_id}',
  path: { ...tenantPath, service_id: Identifier },
  document: ServiceInstance,
  /** A PATCH or PUT of an existing instance may leave its type out. */
  body: Type.Object(
    { service_id: Type.Optional(Identifier), service_type: Type.Optional(Slug), ...fields },
    strict,
  ),
  /** Which fields are an administrator's alone, a rule of the service says. */
  writers: { level: 'tenant', roles: configurationReaders },
  key: serviceInstanceKey,
});

export const serviceInstanceContracts = {
  'tenant-config.services.get': service.get,
  'tenant-config.services.put': service.put,
  'tenant-config.services.patch': service.patch,
  /** Lets the lower layers show through again; for administrators only. */
  'tenant-config.services.delete': { ...service.delete, access: ofTenant.writers },
  'tenant-config.services.list': tenantListing(
    "the tenant's service instances",
    '/tenants/{tenant_id}/services',
    ServiceInstance,
  ),
} as const;
