import {
  endpointsOf,
  escalationDefaults,
  type EffectiveNotifications,
  type NotificationConfig,
} from '../../../shared/contracts/notification-config.ts';
import type { Settings } from '../../../shared/settings.ts';

/** A webhook endpoint as it will be used: process defaults where a field is missing, process caps where it asks for more. */
export function effectiveEndpoints(config: NotificationConfig | null, settings: Settings) {
  return endpointsOf(config)
    .slice(0, settings.approval_webhook_endpoints_cap)
    .map(({ endpoint }) => ({
      ...endpoint,
      headers: endpoint.headers ?? {},
      timeout_seconds: Math.min(
        endpoint.timeout_seconds ?? settings.approval_webhook_timeout_seconds,
        settings.approval_webhook_timeout_cap_seconds,
      ),
      retry_attempts: Math.min(
        endpoint.retry_attempts ?? settings.approval_webhook_retry_attempts,
        settings.approval_webhook_retry_cap,
      ),
      backoff: {
        initial_seconds: Math.min(
          endpoint.backoff?.initial_seconds ?? settings.approval_webhook_backoff_initial_seconds,
          settings.approval_webhook_backoff_cap_seconds,
        ),
        factor: endpoint.backoff?.factor ?? settings.approval_webhook_backoff_factor,
        max_seconds: Math.min(
          endpoint.backoff?.max_seconds ?? settings.approval_webhook_backoff_max_seconds,
          settings.approval_webhook_backoff_cap_seconds,
        ),
      },
    }));
}

/** The whole document in use. Webhooks come in the multi-endpoint form, whichever was written. */
export const effectiveNotifications = (
  config: NotificationConfig | null,
  settings: Settings,
): EffectiveNotifications => ({
  webhook: { endpoints: effectiveEndpoints(config, settings) },
  email: {
    approval_recipients: [],
    default_recipients: [],
    template_overrides: {},
    from_email: settings.from_email,
    ...config?.email,
  },
  ...(config?.chat ? { chat: config.chat } : {}),
  approver_groups: { risk_levels: {}, action_overrides: {}, ...config?.approver_groups },
  escalation: { ...escalationDefaults, ...config?.escalation },
});
