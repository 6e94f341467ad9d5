/**
 * What others set for a service instance: the platform its limits, the tenant's administrators some
 * of its fields.
 */
import { isDeepStrictEqual } from 'node:util';
import { actsByRoles, type Caller } from '../../../shared/access.ts';
import type { ServiceInstance } from '../../../shared/contracts/service-instances.ts';
import { StrataError, type Problem } from '../../../shared/errors.ts';
import type { ManagedTypes } from '../stores/managed-types.ts';
import { scalingOrder } from './checks.ts';

type ServiceType = ManagedTypes[number];

/**
 * Instances stay within the service type's scaling_limits, whoever writes them. A refusal names the
 * limit and its owner. Limits that were lowered since don't refuse what is there already: reading
 * holds it within them.
 */
export function withinLimits(
  next: ServiceInstance,
  current: ServiceInstance | null,
  type: ServiceType | undefined,
): Problem[] {
  const limits = type?.scaling_limits ?? {};
  const owner = `scaling_limits of service type ${next.service_type}, set by the platform`;
  const problems = scalingOrder(next);
  for (const field of ['min_instances', 'max_instances'] as const) {
    const value = next[field];
    if (value === undefined || value === current?.[field]) continue;
    const path = `/${field}`;
    if (limits.min_instances !== undefined && value < limits.min_instances) {
      const message = `is ${value}, below min_instances ${limits.min_instances} (${owner})`;
      problems.push({ path, message });
    }
    if (limits.max_instances !== undefined && value > limits.max_instances) {
      const message = `is ${value}, above max_instances ${limits.max_instances} (${owner})`;
      problems.push({ path, message });
    }
  }
  return problems;
}

/** Fields of a service instance that only a tenant administrator changes. */
const administratorOnly = [
  'automation_enabled',
  'business_hours',
  'maintenance_windows',
  'maintenance_windows_only',
  'notification_channels',
] as const;

/** Throws 403 where an operator who is no administrator changes what only an administrator may. */
export function checkOperator(
  next: ServiceInstance,
  current: ServiceInstance | null,
  caller: Caller,
): void {
  if (!actsByRoles(caller) || caller.roles.includes('tenant_admin')) return;
  // Limits of a project bind its instances: who moves one leaves them behind.
  const fields =
    current === null ? administratorOnly : [...administratorOnly, 'project_id' as const];
  const field = fields.find((name) => !isDeepStrictEqual(next[name], current?.[name]));
  if (field === undefined) return;
  throw new StrataError(
    'insufficient_role',
    `Only a tenant_admin changes ${field} of a service instance.`,
  );
}
