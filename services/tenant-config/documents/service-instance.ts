/** A tenant's service instances, one document each. */
import type { BoundSet } from '../../../shared/bounds/bounds-in-force.ts';
import {
  ServiceInstance,
  type ServiceInstanceAddress,
} from '../../../shared/contracts/service-instances.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { sameAsInPath } from '../rules/checks.ts';
import { checkOperator, withinLimits } from '../rules/guardrails.ts';
import { boundViolations, valuesOfInstance } from '../../../shared/bounds/placed-values.ts';
import { typeProblems } from '../rules/service-instance.ts';
import { ServiceInstanceEntity } from '../schema.ts';
import { boundsForValues } from '../stores/bounds.ts';
import { managedTypes, type ManagedTypes } from '../stores/managed-types.ts';
import { inTable } from './tenant-document.ts';

interface Context {
  readonly types: ManagedTypes;
  readonly sets: readonly BoundSet[];
}

export const serviceInstanceKind: DocumentKind<ServiceInstanceAddress, ServiceInstance, Context> = {
  ...inTable(ServiceInstanceEntity, {
    auditName: 'service',
    configType: 'service_config',
    actions: 'tenant-config.services',
    resourceId: ({ service_id }: ServiceInstanceAddress) => service_id,
  }),
  schema: ServiceInstance,
  async prepare({ tenant_id }, request) {
    const [types, sets] = await Promise.all([
      managedTypes(request),
      boundsForValues(tenant_id, request),
    ]);
    return { types, sets };
  },
  complete: (draft, { service_id }, current) => ({
    service_id,
    ...(current && { service_type: current.service_type }),
    ...draft,
  }),
  check({ next, address, current, context: { types, sets }, caller }) {
    checkOperator(next, current, caller);
    const type = types.find(({ service_type }) => service_type === next.service_type);
    const { refused, warned } = boundViolations(valuesOfInstance, next, current, sets);
    return {
      refused: [
        ...sameAsInPath('service_id', next, address),
        ...typeProblems(next, current, types),
        ...withinLimits(next, current, type),
        ...refused,
      ],
      warned,
    };
  },
};
