/** One signed request to an endpoint of a tenant's; docs/webhooks.md is what its receiver reads. */
import { randomBytes } from 'node:crypto';
import { isReservedHeader, WebhookEndpoint } from '../contracts/notification-config.ts';
import { markedTexts } from '../schema/marked.ts';
import { attemptOverHttp } from './http-attempt.ts';
import type { HttpClient } from './http-client.ts';
import type { Outcome } from './send-result.ts';
import { signatureHeaders } from './signature.ts';

export interface WebhookRequest {
  /** The receiver's key for duplicates, the same in each attempt. */
  readonly id: string;
  readonly body: string;
  readonly endpoint: WebhookEndpoint & { readonly timeout_seconds: number };
  /** `application/json` by default. */
  readonly contentType?: string;
  /** Of the request that it tells of. */
  readonly requestId?: string | null;
}

/** Posts a notice to one endpoint, signed with the time of this attempt. */
export function sendWebhook(
  client: HttpClient,
  { id, body, endpoint, contentType = 'application/json', requestId }: WebhookRequest,
): Promise<Outcome> {
  const request = {
    url: endpoint.url,
    method: 'POST',
    body,
    timeoutMs: endpoint.timeout_seconds * 1000,
    headers: {
      ...extraHeaders(endpoint),
      ...authHeader(endpoint.auth),
      ...traceHeader(requestId),
      'content-type': contentType,
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

/**
 * W3C Trace Context (w3.org/TR/trace-context), where the request was part of a trace, whose id is its
 * request id then. Strata records no span, so that the parent is one that nobody has seen.
 */
function traceHeader(requestId: string | null | undefined): Record<string, string> {
  if (requestId == null || !/^[0-9a-f]{32}$/.test(requestId)) return {};
  return { traceparent: `00-${requestId}-${randomBytes(8).toString('hex')}-01` };
}

function signatureOf(id: string, body: string, endpoint: WebhookEndpoint): Record<string, string> {
  const { secret, previous_secret: previous } = endpoint;
  if (secret === undefined) return {};
  const secrets = previous === undefined ? [secret] : [secret, previous];
  return signatureHeaders({ id, body, secrets });
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
