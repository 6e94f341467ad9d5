/** A notification_config as the notifier uses it. */
import {
  approvalPolicyDefaults,
  endpointsOf,
  escalationDefaults,
  type EffectiveEndpoint,
  type EffectiveNotifications,
  type NotificationConfig,
  type WebhookEndpoint,
} from '../../../shared/contracts/notification-config.ts';
import type { Settings } from '../../../shared/settings/settings.ts';

/**
 * The whole document in use. Webhooks come as a list, whether one or several were written; a
 * section without defaults is as it was written.
 */
export const effectiveNotifications = (
  config: NotificationConfig | null,
  settings: Settings,
): EffectiveNotifications => ({
  ...config,
  webhook: { endpoints: effectiveEndpoints(config, settings) },
  email: {
    approval_recipients: [],
    default_recipients: [],
    template_overrides: {},
    from_email: settings.from_email,
    ...config?.email,
  },
  approver_groups: { risk_levels: {}, action_overrides: {}, ...config?.approver_groups },
  escalation: { ...escalationDefaults, ...config?.escalation },
  approval_policy: {
    ...approvalPolicyDefaults,
    ...config?.approval_policy,
    required: { ...approvalPolicyDefaults.required, ...config?.approval_policy?.required },
  },
});

const effectiveEndpoints = (
  config: NotificationConfig | null,
  settings: Settings,
): EffectiveEndpoint[] =>
  endpointsOf(config)
    .slice(0, settings.approval_webhook_endpoints_cap)
    .map(({ endpoint }) => effectiveEndpoint(endpoint, settings));

/**
 * An endpoint with the process's defaults where a field is missing, and its caps where the field
 * asks for more.
 */
function effectiveEndpoint(endpoint: WebhookEndpoint, settings: Settings): EffectiveEndpoint {
  const { backoff = {} } = endpoint;
  const timeout = endpoint.timeout_seconds ?? settings.approval_webhook_timeout_seconds;
  const retries = endpoint.retry_attempts ?? settings.approval_webhook_retry_attempts;
  const firstWait = backoff.initial_seconds ?? settings.approval_webhook_backoff_initial_seconds;
  const longestWait = backoff.max_seconds ?? settings.approval_webhook_backoff_max_seconds;
  const waitCap = settings.approval_webhook_backoff_cap_seconds;
  return {
    ...endpoint,
    headers: endpoint.headers ?? {},
    timeout_seconds: Math.min(timeout, settings.approval_webhook_timeout_cap_seconds),
    retry_attempts: Math.min(retries, settings.approval_webhook_retry_cap),
    backoff: {
      initial_seconds: Math.min(firstWait, waitCap),
      factor: backoff.factor ?? settings.approval_webhook_backoff_factor,
      max_seconds: Math.min(longestWait, waitCap),
    },
  };
}
