import type { Problem } from '../../../shared/errors.ts';
import { isSealed, mapStrings } from '../../../shared/secrets.ts';
import type { Settings } from '../../../shared/settings.ts';
import { endpointsOf, type Config } from './notification-secrets.ts';

const reserved = /^(host|content-length|content-type|transfer-encoding|connection|keep-alive|upgrade|te|trailer|expect|proxy-.*|authorization|x-service-signature|webhook-.*)$/i;

/** What a schema can't say. Fields beyond a process cap are allowed: the cap applies when they are used. */
export function checkNotificationConfig(config: Config | null, settings: Settings): Problem[] {
  if (config === null) return [];
  const problems: Problem[] = [];
  const endpoints = endpointsOf(config);
  if (endpoints.length > settings.approval_webhook_endpoints_cap) {
    problems.push({ path: '/webhook/endpoints', message: `has more than ${settings.approval_webhook_endpoints_cap} endpoints (APPROVAL_WEBHOOK_ENDPOINTS_CAP)` });
  }
  for (const { path, endpoint } of endpoints) {
    const url = URL.parse(endpoint.url);
    if (!url) problems.push({ path: `${path}/url`, message: 'is not a URL' });
    else if (url.username || url.password) problems.push({ path: `${path}/url`, message: 'must not carry a user name or password; use auth' });
    else if (url.protocol === 'http:' && !settings.webhook_allow_http) problems.push({ path: `${path}/url`, message: 'must be https (WEBHOOK_ALLOW_HTTP allows http)' });
    const names = Object.keys(endpoint.headers ?? {});
    const own = endpoint.auth?.type === 'api_key' ? (endpoint.auth.header_name ?? 'X-API-Key').toLowerCase() : undefined;
    if (own && reserved.test(own)) problems.push({ path: `${path}/auth/header_name`, message: 'is a reserved header' });
    for (const name of names) {
      const lower = name.toLowerCase();
      if (reserved.test(name) || lower === own) problems.push({ path: `${path}/headers/${name}`, message: 'is a reserved header' });
      if (names.some((other) => other !== name && other.toLowerCase() === lower)) problems.push({ path: `${path}/headers/${name}`, message: 'is given twice' });
    }
  }
  let forged = false;
  mapStrings(config, (text) => { forged ||= isSealed(text); return text; });
  if (forged) problems.push({ path: '', message: 'holds text that looks like a sealed secret' });
  return problems;
}
