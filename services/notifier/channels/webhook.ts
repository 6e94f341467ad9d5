/** Notices to webhook endpoints; docs/webhooks.md is what their receivers read. */
import {
  isReservedHeader,
  WebhookEndpoint,
  type EffectiveEndpoint,
} from '../../../shared/contracts/notification-config.ts';
import type { HttpClient } from '../../../shared/outgoing/http-client.ts';
import { markedTexts } from '../../../shared/schema/marked.ts';
import type { ChannelConfig } from '../rules/frozen-config.ts';
import { signatureHeaders } from '../../../shared/outgoing/signature.ts';
import {
  urlDestination,
  type DestinationsOf,
  type NoticeChannel,
  type Outcome,
} from './channel.ts';
import { attemptOverHttp } from './http-attempt.ts';

export const webhookDestinations: DestinationsOf = (tenantId, { webhook }) =>
  webhook.endpoints.map(({ url }, index) =>
    urlDestination('webhook', tenantId, String(index), url),
  );

export const webhookChannel = ({ http }: { readonly http: HttpClient }): NoticeChannel => ({
  async send({ id, place, body }, config) {
    const endpoint = endpointAt(place, config);
    return sendWebhook(http, { id, body, endpoint });
  },

  retryPlan(place, config) {
    const { retry_attempts: retries, backoff } = endpointAt(place, config);
    return { retries, backoff };
  },
});

function endpointAt(place: string, { webhook }: ChannelConfig): EffectiveEndpoint {
  const endpoint = webhook.endpoints[Number(place)];
  if (!endpoint) throw new Error(`the configuration has no webhook endpoint ${place}`);
  return endpoint;
}

export interface WebhookRequest {
  /** The receiver's key for duplicates, the same in each attempt. */
  readonly id: string;
  readonly body: string;
  readonly endpoint: WebhookEndpoint & { readonly timeout_seconds: number };
}

/** Posts a notice to one endpoint, signed with the time of this attempt. */
export function sendWebhook(
  client: HttpClient,
  { id, body, endpoint }: WebhookRequest,
): Promise<Outcome> {
  const request = {
    url: endpoint.url,
    method: 'POST',
    body,
    timeoutMs: endpoint.timeout_seconds * 1000,
    headers: {
      ...extraHeaders(endpoint),
      ...authHeader(endpoint.auth),
      'content-type': 'application/json',
      ...signatureOf(id, body, endpoint),
    },
  } as const;
  return attemptOverHttp(client, request, secretsOf(endpoint));
}

/**
 * The tenant's own headers. Reserved ones are refused when the configuration is saved, and left out
 * here all the same.
 */
function extraHeaders({ headers = {} }: WebhookEndpoint): Record<string, string> {
  const allowed = Object.entries(headers).filter(([name]) => !isReservedHeader(name));
  return Object.fromEntries(allowed.map(([name, value]) => [name.toLowerCase(), value]));
}

function signatureOf(id: string, body: string, endpoint: WebhookEndpoint): Record<string, string> {
  const { secret, previous_secret: previous } = endpoint;
  if (secret === undefined) return {};
  const secrets = previous === undefined ? [secret] : [secret, previous];
  const timestamp = Math.floor(Date.now() / 1000);
  return signatureHeaders({ id, body, timestamp, secrets });
}

const basicCredentials = (username: string, password: string): string =>
  Buffer.from(`${username}:${password}`).toString('base64');

function authHeader(auth: WebhookEndpoint['auth']): Record<string, string> {
  switch (auth?.type) {
    case 'bearer':
      return { authorization: `Bearer ${auth.token}` };
    case 'basic':
      return { authorization: `Basic ${basicCredentials(auth.username, auth.password)}` };
    case 'api_key':
      return { [(auth.header_name ?? 'X-API-Key').toLowerCase()]: auth.api_key };
    case undefined:
      return {};
  }
}

/**
 * What the log must not show of an answer: the stored secrets, the credentials as sent, and the
 * address beyond its origin.
 */
function secretsOf(endpoint: WebhookEndpoint): string[] {
  const { auth, url } = endpoint;
  const stored = markedTexts(WebhookEndpoint, endpoint)
    .filter(({ isSecret }) => isSecret)
    .map(({ text }) => text);
  const credentials =
    auth?.type === 'basic' ? [basicCredentials(auth.username, auth.password)] : [];
  const { pathname = '/', search = '' } = URL.parse(url) ?? {};
  const path = pathname + search;
  return [...stored, ...credentials, url, ...(path === '/' ? [] : [path])];
}
