/** What contracts name, for the types of the client. Written by `npm run settings`. */

/** The keys whose type Strata itself holds. */
export interface KnownValues {
  max_cost_impact_auto: number;
  max_cost_impact_approval: number;
  max_resource_scaling: number;
  approval_timeout_minutes: number;
  require_approval_for_high_risk: boolean;
  auto_approve_rollbacks: boolean;
  automation_enabled: boolean;
  business_hours_only: boolean;
  max_concurrent_automations: number;
  record_decisions: string;
  min_instances: number;
  max_instances: number;
  monitoring_enabled: boolean;
}
export type AutomationDecision = 'allow' | 'approval_required' | 'deny';
export type AutomationState =
  'waiting_approval' | 'waiting_slot' | 'running' | 'denied' | 'finished' | 'expired';
/** Strata's services. A call of another gets no credential. */
export const services: readonly string[] = [
  'tenant-config',
  'global-config',
  'config-resolver',
  'auth',
  'audit',
  'notifier',
  'cluster',
];
