/**
 * What the schema of a notification_config can't say, whatever the process's limits for addresses
 * are.
 */
import { endpointsOf, NotificationConfig } from '../../../shared/contracts/notification-config.ts';
import { endpointProblems, problemAt } from '../../../shared/documents/endpoint-problems.ts';
import type { Problem } from '../../../shared/errors.ts';
import { markedTexts } from '../../../shared/schema/marked.ts';
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
    ...hiddenUrlProblems(config),
    ...tokenProblems(config?.slack?.app_token, 'xapp-', 'app_token'),
    ...tokenProblems(config?.slack?.bot_token, 'xoxb-', 'bot_token'),
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

/** Slack names the kind of a token by how it begins. */
const tokenProblems = (token: string | undefined, begins: string, name: string): Problem[] =>
  token === undefined || token === mask || token.startsWith(begins)
    ? []
    : [problemAt(['slack', name], `does not begin with ${begins}`)];

/** Of addresses that are secrets: their schemas take any text, since one may come back masked. */
const hiddenUrlProblems = (config: NotificationConfig | null): Problem[] =>
  markedTexts(NotificationConfig, config)
    .filter(({ isSecret, isCalled, text }) => isSecret && isCalled && text !== mask && !isUrl(text))
    .map(({ path }) => problemAt(path, 'is not a URL'));

const isUrl = (text: string): boolean => /^https?:\/\/\S+$/i.test(text) && URL.canParse(text);
