/**
 * What a service instance's own fields must fulfil; the limits that others set for it are in
 * `guardrails.ts`.
 */
import type { ServiceInstance } from '../../../shared/contracts/service-instances.ts';
import type { Problem } from '../../../shared/errors.ts';
import type { ManagedTypes } from '../stores/managed-types.ts';
import { notAnActiveType } from './checks.ts';

/** A new instance has an active type, and keeps it: its limits and its layer depend on it. */
export function typeProblems(
  next: ServiceInstance,
  current: ServiceInstance | null,
  types: ManagedTypes,
): Problem[] {
  const path = '/service_type';
  if (current !== null) {
    const isSame = next.service_type === current.service_type;
    return isSame ? [] : [{ path, message: `is fixed once created: ${current.service_type}` }];
  }
  const isActive = types.some(({ service_type }) => service_type === next.service_type);
  return isActive ? [] : [notAnActiveType(path, types)];
}
