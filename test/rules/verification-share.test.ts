/** What verifying a chain may take of a node: a chunk at once, then so many bytes in a time. */
import { expect, test } from '@jest/globals';
import { VerificationShare } from '../../services/audit/worker/verification-share.ts';

const chunk = 1024 * 1024;

test('whoever asks again and again has to rest, and no other chain waits', async () => {
  const share = new VerificationShare(chunk);
  const began = performance.now();
  expect(await share.rest('theirs', chunk)).toBe(0);
  const order: string[] = [];
  const theirs = share.rest('theirs', chunk / 4).then(() => order.push('theirs'));
  expect(await share.rest('another', chunk)).toBe(0);
  order.push('another');
  await theirs;
  expect(order).toEqual(['another', 'theirs']);
  // A quarter of a megabyte at 1.6 in a second.
  expect(performance.now() - began).toBeGreaterThan(140);
});
