/** The limits of a service type as bounds on its instances. */
import type { BoundSet } from '../../../shared/bounds/bounds-in-force.ts';
import type { ServiceInstance } from '../../../shared/contracts/service-instances.ts';
import type { ManagedTypes } from '../stores/managed-types.ts';

/** Nothing where the type has none. */
export function scalingBounds({ service_type }: ServiceInstance, types: ManagedTypes): BoundSet[] {
  const type = types.find((each) => each.service_type === service_type);
  const { min_instances: minimum, max_instances: maximum } = type?.scaling_limits ?? {};
  if (minimum === undefined && maximum === undefined) return [];
  const bound = {
    ...(minimum !== undefined && { minimum }),
    ...(maximum !== undefined && { maximum }),
  };
  const bounds = { min_instances: bound, max_instances: bound };
  return [{ by: 'service_type', bounds, revision: null }];
}
