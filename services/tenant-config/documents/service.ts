import {
  ServiceInstance,
  type ServiceInstanceAddress,
} from '../../../shared/contracts/service-instances.ts';
import type { Problem } from '../../../shared/errors.ts';
import type { DocumentKind } from '../../../shared/documents/document.ts';
import { managedTypes, type ManagedTypes } from '../managed-types.ts';
import { samePath } from '../rules/checks.ts';
import { checkOperator, withinLimits } from '../rules/guardrails.ts';
import { ServiceEntity } from '../schema.ts';
import { tenantDocument } from './tenant-document.ts';

export const serviceKind: DocumentKind<ServiceInstanceAddress, ServiceInstance, ManagedTypes> = {
  ...tenantDocument<ServiceInstanceAddress, ServiceInstance>({
    resource: 'service',
    configType: 'service_config',
    entity: ServiceEntity,
    target: ({ service_id }) => service_id,
  }),
  schema: ServiceInstance,
  prepare: (_params, request) => managedTypes(request),
  settle: (draft, { service_id }, current) => ({
    service_id,
    ...(current ? { service_type: current.service_type } : {}),
    ...draft,
  }),
  check: (next, { service_id }, current, types, { caller }) => {
    checkOperator(next, current, caller);
    const type = types.find(({ service_type }) => service_type === next.service_type);
    return [
      ...samePath('service_id', next.service_id, service_id),
      ...typeOf(next, current, types),
      ...withinLimits(next, type),
      ...timezones(next),
    ];
  },
};

function typeOf(
  { service_type: next }: ServiceInstance,
  current: ServiceInstance | null,
  types: ManagedTypes,
): Problem[] {
  const path = '/service_type';
  if (current)
    return next === current.service_type
      ? []
      : [{ path, message: `is fixed once created: ${current.service_type}` }];
  return types.some(({ service_type }) => service_type === next)
    ? []
    : [
        {
          path,
          message: `is not an active service type; there are ${types.map(({ service_type }) => service_type).join(', ')}`,
        },
      ];
}

const timezones = ({ maintenance_windows: windows = [] }: ServiceInstance): Problem[] =>
  windows.flatMap(({ timezone }, index) =>
    isTimezone(timezone)
      ? []
      : [{ path: `/maintenance_windows/${index}/timezone`, message: 'is not an IANA time zone' }],
  );

function isTimezone(name: string): boolean {
  try {
    // Offsets such as +02:00 pass too, and are no zone.
    return !/^[+-]/.test(
      new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone,
    );
  } catch {
    return false;
  }
}
