import {
  isReservedHeader,
  notificationSecrets,
  type WebhookEndpoint,
} from '../../../shared/contracts/notification-config.ts';
import type { HttpClient } from '../../../shared/outgoing/http-client.ts';
import { signatureHeaders } from '../rules/signature.ts';
import { attempt } from './attempt.ts';
import type { Outcome } from './outcome.ts';

export interface WebhookDelivery {
  /** The receiver's key for repeats, the same in each attempt. */
  readonly id: string;
  readonly body: string;
  readonly endpoint: WebhookEndpoint & { readonly timeout_seconds: number };
}

/** Posts a notice to one endpoint, signed afresh. */
export const webhookChannel =
  (client: HttpClient) =>
  ({ id, body, endpoint }: WebhookDelivery): Promise<Outcome> => {
    const { secret, previous_secret: previous } = endpoint;
    const extra = Object.entries(endpoint.headers ?? {})
      .filter(([name]) => !isReservedHeader(name))
      .map(([name, value]) => [name.toLowerCase(), value]);
    const signature =
      secret === undefined
        ? {}
        : signatureHeaders({
            id,
            body,
            timestamp: Math.floor(Date.now() / 1000),
            secrets: previous === undefined ? [secret] : [secret, previous],
          });
    return attempt(
      client,
      {
        url: endpoint.url,
        method: 'POST',
        body,
        timeoutMs: endpoint.timeout_seconds * 1000,
        headers: {
          ...Object.fromEntries(extra),
          ...authHeader(endpoint.auth),
          'content-type': 'application/json',
          ...signature,
        },
      },
      secretsOf(endpoint),
    );
  };

const basic = (username: string, password: string): string =>
  Buffer.from(`${username}:${password}`).toString('base64');

function authHeader(auth: WebhookEndpoint['auth']): Record<string, string> {
  switch (auth?.type) {
    case 'bearer':
      return { authorization: `Bearer ${auth.token}` };
    case 'basic':
      return { authorization: `Basic ${basic(auth.username, auth.password)}` };
    case 'api_key':
      return { [(auth.header_name ?? 'X-API-Key').toLowerCase()]: auth.api_key };
    case undefined:
      return {};
  }
}

/** What an answer must not bring back: the stored secrets, as sent too, and the address beyond its origin. */
function secretsOf(endpoint: WebhookEndpoint): string[] {
  const [holder] = notificationSecrets({ webhook: endpoint });
  const stored = holder!.secrets.map((path: readonly string[]) =>
    path.reduce<unknown>(
      (found, name) => (found as Record<string, unknown> | undefined)?.[name],
      endpoint,
    ),
  );
  const { auth, url } = endpoint;
  const { pathname = '/', search = '' } = URL.parse(url) ?? {};
  return [
    ...stored.filter((value) => typeof value === 'string'),
    ...(auth?.type === 'basic' ? [basic(auth.username, auth.password)] : []),
    url,
    ...(pathname + search === '/' ? [] : [pathname + search]),
  ];
}
