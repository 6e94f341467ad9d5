/** What verifying a chain may take of a node: a piece at once, then so many bytes in a time. */
import { expect, test } from '@jest/globals';
import { VerificationShare } from '../../services/audit/worker/verification-share.ts';

const piece = 1024 * 1024;

test('whoever asks again and again has to rest, and no other chain waits', async () => {
  const share = new VerificationShare(piece);
  const began = performance.now();
  expect(await share.rest('theirs', piece)).toBe(0);
  const order: string[] = [];
  const theirs = share.rest('theirs', piece / 4).then(() => order.push('theirs'));
  expect(await share.rest('another', piece)).toBe(0);
  order.push('another');
  await theirs;
  expect(order).toEqual(['another', 'theirs']);
  // A quarter of a megabyte at 1.6 in a second.
  expect(performance.now() - began).toBeGreaterThan(140);
});
