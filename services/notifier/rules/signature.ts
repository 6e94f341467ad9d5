import { createHmac } from 'node:crypto';

export interface Signed {
  readonly id: string;
  /** Unix time in seconds, of this attempt. */
  readonly timestamp: number;
  /** The exact bytes that are sent. */
  readonly body: string | Buffer;
  /** The current secret, then the one before while receivers still rotate. */
  readonly secrets: readonly string[];
}

/**
 * Two ways to verify the same: `X-Service-Signature`, in Stripe's form, keyed by the secret as UTF-8, and the headers of Standard
 * Webhooks 1.0 (github.com/standard-webhooks/standard-webhooks), keyed by what `whsec_` is followed by in base64, else the secret.
 */
export function signatureHeaders({ id, timestamp, body, secrets }: Signed): Record<string, string> {
  const hmac = (key: string | Buffer, head: string) =>
    createHmac('sha256', key).update(head).update(body);
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

const standardKey = (secret: string): string | Buffer =>
  secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : secret;
