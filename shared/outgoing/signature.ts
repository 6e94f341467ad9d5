/**
 * Signatures of webhook requests, in the two forms that docs/webhooks.md tells receivers to check.
 */
import { createHmac } from 'node:crypto';
import { synchronizedNow } from '../process/synchronized-clock.ts';

export interface SignedRequest {
  readonly id: string;
  /** Unix time in seconds, of this attempt: the database's by default. */
  readonly timestamp?: number;
  /** The exact bytes that are sent. */
  readonly body: string | Buffer;
  /** The current secret, then the previous one while receivers rotate. */
  readonly secrets: readonly string[];
}

/**
 * Headers that prove the request. Each secret signs in both forms:
 *
 * - `x-service-signature`, as Stripe writes it: HMAC-SHA-256 of `<t>.<body>` in hex, keyed by the
 *   secret as UTF-8.
 * - `webhook-*`, Standard Webhooks 1.0 (github.com/standard-webhooks/standard-webhooks):
 *   HMAC-SHA-256 of `<id>.<timestamp>.<body>` in base64. The key is what follows `whsec_`, decoded
 *   from base64, or the secret as UTF-8 where it has no such prefix.
 */
export function signatureHeaders(request: SignedRequest): Record<string, string> {
  const { id, timestamp = Math.floor(synchronizedNow() / 1000), body, secrets } = request;
  const hmac = (key: string | Buffer, prefix: string) =>
    createHmac('sha256', key).update(prefix).update(body);
  const own = secrets.map((secret) => `v1=${hmac(secret, `${timestamp}.`).digest('hex')}`);
  const standard = secrets.map(
    (secret) => `v1,${hmac(standardKey(secret), `${id}.${timestamp}.`).digest('base64')}`,
  );
  return {
    'x-service-signature': [`t=${timestamp}`, ...own].join(','),
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': standard.join(' '),
  };
}

const standardPrefix = 'whsec_';
const standardKey = (secret: string): string | Buffer =>
  secret.startsWith(standardPrefix)
    ? Buffer.from(secret.slice(standardPrefix.length), 'base64')
    : secret;
