import {
  endpointsOf,
  type NotificationConfig,
} from '../../../shared/contracts/notification-config.ts';
import type { Problem } from '../../../shared/errors.ts';
import type { Guard } from '../../../shared/outgoing/guard.ts';
import type { OutgoingError } from '../../../shared/outgoing/outgoing-error.ts';
import { mapStrings } from '../../../shared/security/document-secrets.ts';
import { isSealed, mask } from '../../../shared/security/vault.ts';
import { checkNotificationConfig } from './notification-config.ts';

/** URL → why nothing may be sent there, of those whose names resolve. */
export type RefusedAddresses = ReadonlyMap<string, string>;

/** What neither the schema nor the document's own rules can say: what this process allows. */
export function notificationProblems(
  config: NotificationConfig | null,
  endpointsCap: number,
  guard: Guard,
  refused: RefusedAddresses,
): Problem[] {
  const problems: Problem[] = checkNotificationConfig(config, endpointsCap);
  const named = new Set(problems.map(({ path }) => path));
  for (const { path, url } of addressesOf(config)) {
    const message = formProblem(guard, url) ?? refused.get(url);
    if (message !== undefined && !named.has(path)) problems.push({ path, message });
  }
  let forged = false;
  mapStrings(config, (text) => {
    forged ||= isSealed(text);
    return text;
  });
  if (forged) problems.push({ path: '', message: 'holds text that looks like a sealed secret' });
  return problems;
}

function addressesOf(config: NotificationConfig | null): { path: string; url: string }[] {
  const chat = config?.chat?.google_chat?.webhook_url;
  return [
    ...endpointsOf(config).map(({ path, endpoint }) => ({
      path: `/${path.join('/')}/url`,
      url: endpoint.url,
    })),
    ...(chat === undefined || chat === mask
      ? []
      : [{ path: '/chat/google_chat/webhook_url', url: chat }]),
  ];
}

function formProblem(guard: Guard, url: string): string | undefined {
  try {
    guard.parse(url);
    return undefined;
  } catch (error) {
    return (error as OutgoingError).message;
  }
}

/** Looks up the names in a body or merge patch, in whatever shape it was sent. */
export async function refusedAddresses(
  body: unknown,
  endpointsCap: number,
  guard: Guard,
): Promise<RefusedAddresses> {
  const member = (value: unknown, name: string): unknown =>
    typeof value === 'object' && value !== null && Object.hasOwn(value, name)
      ? (value as Record<string, unknown>)[name]
      : undefined;
  const webhook = member(body, 'webhook');
  const endpoints = member(webhook, 'endpoints');
  const places = [
    webhook,
    ...(Array.isArray(endpoints) ? (endpoints.slice(0, endpointsCap) as unknown[]) : []),
  ];
  const sent = [
    ...places.map((place) => member(place, 'url')),
    member(member(member(body, 'chat'), 'google_chat'), 'webhook_url'),
  ];
  const urls = [...new Set(sent.filter((url) => typeof url === 'string'))];
  const found = await Promise.all(
    urls.map((url) =>
      guard.checkUrl(url).then(
        () => [],
        (error: OutgoingError) => [[url, error.message] as const],
      ),
    ),
  );
  return new Map(found.flat());
}
