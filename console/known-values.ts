/** What contracts enumerate, for the console to offer. Written by `npm run settings`. */
export const approvalStates = [
  'pending',
  'approved',
  'denied',
  'expired',
  'exhausted',
  'withdrawn',
] as const;
export const automationDecisions = ['allow', 'approval_required', 'deny'] as const;
export const automationStates = [
  'waiting_approval',
  'waiting_slot',
  'running',
  'denied',
  'finished',
  'expired',
] as const;
export const changeSetStates = [
  'draft',
  'pending',
  'approved',
  'scheduled',
  'applied',
  'rejected',
  'stale',
  'cancelled',
  'suspended',
  'failed',
] as const;
export const channels = ['webhook', 'email', 'chat', 'teams', 'slack'] as const;
export const deliveryStates = ['pending', 'delivered', 'failed', 'cancelled'] as const;
export const layers = [
  'service_instance',
  'agent',
  'tenant_risk',
  'service_type',
  'global',
  'env',
] as const;
export const limits = [
  'automation_enabled',
  'business_hours_only',
  'maintenance_windows_only',
  'max_resource_scaling',
  'max_cost_impact_approval',
  'auto_approve_rollbacks',
  'require_approval_for_high_risk',
  'max_cost_impact_auto',
  'approval_timeout_minutes',
  'max_concurrent_automations',
  'record_decisions',
] as const;
export const riskLevels = ['low', 'medium', 'high', 'critical'] as const;
export const rolloutStates = [
  'planned',
  'running',
  'held',
  'completed',
  'reverted',
  'superseded',
] as const;
