/** Hashing passwords: bounded, so that a burst is refused rather than kept waiting, and blind to compatibility forms. */
import { expect, test } from '@jest/globals';
import {
  createPasswordHashing,
  needsRehash,
} from '../../services/auth/sign-in/password-hashing.ts';

const password = 'grapefruit lamp seventy';

test('one hashes in the slot, three wait in the queue, the rest are refused; afterwards it goes on', async () => {
  const hashing = createPasswordHashing({ concurrency: 1, queueLimit: 3 });
  const stored = await hashing.hash(password);
  const verifications = Array.from({ length: 10 }, () => hashing.verify(stored, password));
  const outcomes = await Promise.allSettled(verifications);
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
  const verified = outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value);
  expect([verified.length, refused.length]).toEqual([4, 6]);
  for (const { reason } of refused)
    expect(reason).toMatchObject({ type: 'service_unavailable', code: 503 });
  expect(await hashing.verify(stored, password)).toBe(true);
});

test('compatibility forms are one password; other letters are another', async () => {
  const hashing = createPasswordHashing();
  const stored = await hashing.hash('ﬁve Ångström ①');
  expect(await hashing.verify(stored, 'five A\u030angstro\u0308m 1')).toBe(true);
  expect(await hashing.verify(stored, 'five angstrom 1')).toBe(false);
});

test('no account matches nothing, not even the password that stands in for its hash', async () => {
  const hashing = createPasswordHashing();
  expect(await hashing.verify(null, 'a password that nobody has')).toBe(false);
});

test('a hash made with other parameters is to be made anew', async () => {
  const stored = await createPasswordHashing().hash(password);
  expect(needsRehash(stored)).toBe(false);
  expect(needsRehash(stored.replace('t=2', 't=1'))).toBe(true);
});
