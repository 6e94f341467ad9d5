/**
 * What the schema of a notification_config can't say, whatever the process's limits for addresses
 * are.
 */
import {
  endpointsOf,
  type NotificationConfig,
} from '../../../shared/contracts/notification-config.ts';
import { endpointProblems, problemAt } from '../../../shared/documents/endpoint-problems.ts';
import type { Problem } from '../../../shared/errors.ts';
import { mask } from '../../../shared/security/vault.ts';

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

const chatProblems = (config: NotificationConfig | null): Problem[] => [
  ...hiddenUrlProblems(config?.chat?.google_chat?.webhook_url, [
    'chat',
    'google_chat',
    'webhook_url',
  ]),
  ...hiddenUrlProblems(config?.teams?.webhook_url, ['teams', 'webhook_url']),
  ...tokenProblems(config?.slack?.app_token, 'xapp-', 'app_token'),
  ...tokenProblems(config?.slack?.bot_token, 'xoxb-', 'bot_token'),
];

/** Slack names the kind of a token by how it begins. */
const tokenProblems = (token: string | undefined, begins: string, name: string): Problem[] =>
  token === undefined || token === mask || token.startsWith(begins)
    ? []
    : [problemAt(['slack', name], `does not begin with ${begins}`)];

/** Of an address that is a secret, so that it may come back masked. */
function hiddenUrlProblems(url: string | undefined, path: readonly string[]): Problem[] {
  if (url === undefined || url === mask) return [];
  const isUrl = /^https?:\/\/\S+$/i.test(url) && URL.canParse(url);
  return isUrl ? [] : [problemAt(path, 'is not a URL')];
}
