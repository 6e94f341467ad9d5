/** What verifying a chain may take of a node: a second at once, then a fifth of the time. */
import { expect, test } from '@jest/globals';
import { VerificationShare } from '../../services/audit/worker/verification-share.ts';

test('whoever asks again and again works a fifth of the time, and no other chain waits', async () => {
  const share = new VerificationShare();
  const began = performance.now();
  await share.rest('theirs', 1000);
  const order: string[] = [];
  const theirs = share.rest('theirs', 40).then(() => order.push('theirs'));
  await share.rest('another', 900);
  order.push('another');
  await theirs;
  expect(order).toEqual(['another', 'theirs']);
  // Forty milliseconds of work in two hundred.
  expect(performance.now() - began).toBeGreaterThan(190);
});
