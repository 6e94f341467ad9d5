/** Signatures, checked by the libraries that receivers use. */
import { describe, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { signatureHeaders } from '../../shared/outgoing/signature.ts';

const body =
  '{"type":"approval.requested","id":"ntf_01JD9ZP1V7Q2M3K4N5P6Q7R8S9","timestamp":"2025-10-09T08:53:20.000Z","data":{"approval_id":"apr_1"}}';
const id = 'ntf_01JD9ZP1V7Q2M3K4N5P6Q7R8S9';
const now = (): number => Math.floor(Date.now() / 1000);
const whsec = `whsec_${Buffer.from('a key of at least 24 bytes!').toString('base64')}`;

const stripe = new Stripe('sk_test_unused');
/** `X-Service-Signature` is Stripe's header under another name. */
const stripeAccepts = (
  headers: Record<string, string>,
  secret: string,
  payload: string | Buffer = body,
): boolean => {
  try {
    stripe.webhooks.constructEvent(payload, headers['x-service-signature']!, secret);
    return true;
  } catch (error) {
    if ((error as { type?: string }).type !== 'StripeSignatureVerificationError') throw error;
    return false;
  }
};
const standardAccepts = (
  headers: Record<string, string>,
  secret: string,
  payload: string | Buffer = body,
): boolean => {
  try {
    // The library reads a raw text as its UTF-16 units, where docs/webhooks.md promises UTF-8.
    const webhook = secret.startsWith('whsec_')
      ? new Webhook(secret)
      : new Webhook(Buffer.from(secret), { format: 'raw' });
    webhook.verify(payload, headers);
    return true;
  } catch (error) {
    if ((error as Error).name !== 'WebhookVerificationError') throw error;
    return false;
  }
};
const bothAccept = (...given: Parameters<typeof stripeAccepts>): boolean[] => [
  stripeAccepts(...given),
  standardAccepts(...given),
];

test('both forms of one known request', () => {
  expect(signatureHeaders({ id, timestamp: 1760000000, body, secrets: ['s3cr3t'] })).toEqual({
    'x-service-signature':
      't=1760000000,v1=43eea68f367189e6f01485f0b30c6cefb063ee4563d415c1e35b91c1d3a1b99f',
    'webhook-id': id,
    'webhook-timestamp': '1760000000',
    'webhook-signature': 'v1,FwrSatx2+YGK5wQHI8mE5MTpJUwABmb7YxAXPPm1S9A=',
  });
});

test('the vector published with Standard Webhooks', () => {
  expect(
    signatureHeaders({
      id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      timestamp: 1614265330,
      body: '{"test": 2432232314}',
      secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
    })['webhook-signature'],
  ).toBe('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
});

describe.each(['s3cr3t', 'schlüssel 鍵', 'whsec', whsec])('the secret %s', (secret) => {
  const signed = (given: Partial<Parameters<typeof signatureHeaders>[0]> = {}) =>
    signatureHeaders({ id, timestamp: now(), body, secrets: [secret], ...given });

  test('verifies', () => expect(bothAccept(signed(), secret)).toEqual([true, true]));
  test('verifies over exact bytes, whatever they are', () => {
    const bytes = Buffer.from('{ "ä":1.0,\t"b":"\u{1F600}"}\r\n');
    expect(bothAccept(signed({ body: bytes }), secret, bytes)).toEqual([true, true]);
  });
  test('another body does not', () => {
    expect(bothAccept(signed(), secret, body.replace('apr_1', 'apr_2'))).toEqual([false, false]);
    expect(bothAccept(signed(), secret, `${body} `)).toEqual([false, false]);
  });
  test('another secret does not', () => {
    const other =
      secret === whsec
        ? `whsec_${Buffer.from('another key of 24 bytes ..').toString('base64')}`
        : `${secret}2`;
    expect(bothAccept(signed(), other)).toEqual([false, false]);
  });
  test('an old signature does not', () => {
    expect(bothAccept(signed({ timestamp: now() - 301 }), secret)).toEqual([false, false]);
    const [fresh, old] = [signed(), signed({ timestamp: now() - 400 })];
    expect(
      bothAccept(
        {
          ...old,
          'x-service-signature': old['x-service-signature']!.replace(/t=\d+/, `t=${now()}`),
          'webhook-timestamp': fresh['webhook-timestamp']!,
        },
        secret,
      ),
    ).toEqual([false, false]);
  });
  test('another id does not', () =>
    expect(standardAccepts({ ...signed(), 'webhook-id': 'ntf_other' }, secret)).toBe(false));
  test('while it is rotated, receivers with either secret take it', () => {
    const headers = signed({ secrets: ['the next one', secret] });
    expect([
      ...bothAccept(headers, 'the next one'),
      ...bothAccept(headers, secret),
      ...bothAccept(headers, 'neither'),
    ]).toEqual([true, true, true, true, false, false]);
    expect(headers['x-service-signature']).toMatch(/^t=\d+,v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/);
    expect(headers['webhook-signature']).toMatch(/^v1,\S+ v1,\S+$/);
  });
});
