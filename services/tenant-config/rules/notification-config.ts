/**
 * What the schema of a notification_config can't say, whatever the process's limits for addresses
 * are.
 */
import {
  endpointsOf,
  isReservedHeader,
  type NotificationConfig,
  type WebhookEndpoint,
} from '../../../shared/contracts/notification-config.ts';
import type { Problem } from '../../../shared/errors.ts';
import { pointerTo } from '../../../shared/schema/json-pointer.ts';
import { mask } from '../../../shared/security/vault.ts';

type Path = readonly string[];
const problemAt = (path: Path, message: string): Problem => ({ path: pointerTo(path), message });

/**
 * Times and retries beyond a cap of the process may be stored: the cap applies when they are used.
 */
export function checkNotificationConfig(
  config: NotificationConfig | null,
  maxEndpoints: number,
): Problem[] {
  const endpoints = endpointsOf(config);
  const tooMany = endpoints.length > maxEndpoints;
  return [
    ...(tooMany
      ? [
          problemAt(
            ['webhook', 'endpoints'],
            `has more than ${maxEndpoints} endpoints (APPROVAL_WEBHOOK_ENDPOINTS_CAP)`,
          ),
        ]
      : []),
    ...endpoints.flatMap(({ path, endpoint }) => endpointProblems(endpoint, path)),
    ...brandingProblems(config),
    ...chatProblems(config),
  ];
}

/** Approver groups of the configuration in which no one may decide. */
export function emptyGroups(
  config: NotificationConfig | null,
  staffed: ReadonlySet<string>,
): Problem[] {
  const { risk_levels = {}, action_overrides = {} } = config?.approver_groups ?? {};
  const parts: Record<string, Record<string, string[]>> = { risk_levels, action_overrides };
  return Object.entries(parts).flatMap(([part, chains]) =>
    Object.entries(chains).flatMap(([name, groups]) =>
      groups.flatMap((group, index) => {
        const path = ['approver_groups', part, name, String(index)];
        return staffed.has(group) ? [] : [problemAt(path, 'has no member who may decide')];
      }),
    ),
  );
}

/** Of anything that requests are posted to. */
export const endpointProblems = (endpoint: WebhookEndpoint, path: Path): Problem[] => [
  ...urlProblems(endpoint, path),
  ...headerProblems(endpoint, path),
  ...secretProblems(endpoint, path),
];

function urlProblems(endpoint: WebhookEndpoint, path: Path): Problem[] {
  const url = URL.parse(endpoint.url);
  if (!url) return [problemAt([...path, 'url'], 'is not a URL')];
  if (url.username || url.password)
    return [problemAt([...path, 'url'], 'must not carry a user name or password; use auth')];
  return [];
}

/** Header names differ by more than case, and none is one that Strata sets or that `auth` uses. */
function headerProblems({ auth, headers = {} }: WebhookEndpoint, path: Path): Problem[] {
  const problems: Problem[] = [];
  const authHeader =
    auth?.type === 'api_key' ? (auth.header_name ?? 'X-API-Key').toLowerCase() : undefined;
  if (authHeader !== undefined && isReservedHeader(authHeader))
    problems.push(problemAt([...path, 'auth', 'header_name'], 'is a reserved header'));

  const names = Object.keys(headers);
  for (const name of names) {
    const lower = name.toLowerCase();
    const isTwice = names.some((other) => other !== name && other.toLowerCase() === lower);
    const place = [...path, 'headers', name];
    if (isReservedHeader(lower)) problems.push(problemAt(place, 'is a reserved header'));
    else if (lower === authHeader) problems.push(problemAt(place, 'is the header of auth'));
    else if (isTwice) problems.push(problemAt(place, 'is given twice'));
  }
  return problems;
}

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const base64Prefix = 'whsec_';

function secretProblems(endpoint: WebhookEndpoint, path: Path): Problem[] {
  const problems: Problem[] = [];
  for (const field of ['secret', 'previous_secret'] as const) {
    const secret = endpoint[field];
    if (!secret?.startsWith(base64Prefix)) continue;
    const encoded = secret.slice(base64Prefix.length);
    if (encoded === '' || !base64.test(encoded))
      problems.push(problemAt([...path, field], `must be base64 after ${base64Prefix}`));
  }
  if (endpoint.previous_secret !== undefined && endpoint.secret === undefined)
    problems.push(problemAt([...path, 'previous_secret'], 'needs a secret beside it'));
  return problems;
}

function brandingProblems(config: NotificationConfig | null): Problem[] {
  const templates = Object.entries(config?.email?.template_overrides ?? {});
  return templates.flatMap(([template, { branding = {} }]) => {
    const { color, logo_url: logo } = typeof branding === 'string' ? {} : branding;
    const path = ['email', 'template_overrides', template, 'branding'];
    const problems: Problem[] = [];
    if (color !== undefined && !/^#[0-9a-f]{6}$/i.test(color))
      problems.push(problemAt([...path, 'color'], 'is not a color such as #1f4fbf'));
    if (logo !== undefined && URL.parse(logo)?.protocol !== 'https:')
      problems.push(problemAt([...path, 'logo_url'], 'is not an https URL'));
    return problems;
  });
}

/** The address of a chat is a secret, so it may come back masked. */
function chatProblems(config: NotificationConfig | null): Problem[] {
  const url = config?.chat?.google_chat?.webhook_url;
  if (url === undefined || url === mask) return [];
  const isUrl = /^https?:\/\/\S+$/i.test(url) && URL.canParse(url);
  return isUrl ? [] : [problemAt(['chat', 'google_chat', 'webhook_url'], 'is not a URL')];
}
