import { checkNotificationConfig, endpointsOf, type NotificationConfig } from '../../../shared/contracts/notification-config.ts';
import type { Problem } from '../../../shared/errors.ts';
import { isSealed, mapStrings } from '../../../shared/secrets.ts';
import type { Settings } from '../../../shared/settings.ts';

/** What neither the schema nor the document's own rules can say: what this process allows. */
export function notificationProblems(config: NotificationConfig | null, settings: Settings): Problem[] {
  const problems: Problem[] = checkNotificationConfig(config, settings.approval_webhook_endpoints_cap);
  for (const { path, endpoint } of endpointsOf(config)) {
    if (URL.parse(endpoint.url)?.protocol === 'http:' && !settings.webhook_allow_http) {
      problems.push({ path: `/${path.join('/')}/url`, message: 'must be https (WEBHOOK_ALLOW_HTTP allows http)' });
    }
  }
  let forged = false;
  mapStrings(config, (text) => { forged ||= isSealed(text); return text; });
  if (forged) problems.push({ path: '', message: 'holds text that looks like a sealed secret' });
  return problems;
}
