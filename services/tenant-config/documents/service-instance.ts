/** A tenant's service instances, one document each. */
import {
  ServiceInstance,
  type ServiceInstanceAddress,
} from '../../../shared/contracts/service-instances.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { sameAsInPath } from '../rules/checks.ts';
import { checkOperator, withinLimits } from '../rules/guardrails.ts';
import { typeProblems } from '../rules/service-instance.ts';
import { ServiceInstanceEntity } from '../schema.ts';
import { managedTypes, type ManagedTypes } from '../stores/managed-types.ts';
import { inTable, tenantDocument } from './tenant-document.ts';

const resourceId = ({ service_id }: ServiceInstanceAddress): string => service_id;

export const serviceInstanceKind: DocumentKind<
  ServiceInstanceAddress,
  ServiceInstance,
  ManagedTypes
> = {
  ...tenantDocument({ auditName: 'service', configType: 'service_config', resourceId }),
  ...inTable(ServiceInstanceEntity, resourceId),
  schema: ServiceInstance,
  prepare: (_address, request) => managedTypes(request),
  complete: (draft, { service_id }, current) => ({
    service_id,
    ...(current && { service_type: current.service_type }),
    ...draft,
  }),
  check({ next, address, current, context: types, caller }) {
    checkOperator(next, current, caller);
    const type = types.find(({ service_type }) => service_type === next.service_type);
    return [
      ...sameAsInPath('service_id', next, address),
      ...typeProblems(next, current, types),
      ...withinLimits(next, type),
    ];
  },
};
