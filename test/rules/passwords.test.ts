/** Hashing is bounded: what does not fit is refused, not kept waiting. */
import { expect, test } from '@jest/globals';
import { createPasswords, needsRehash } from '../../services/auth/rules/passwords.ts';

test('as many hash at once as there are slots, as many wait as the queue holds, the rest are refused; later it goes on', async () => {
  const passwords = createPasswords({ concurrency: 1, queueLimit: 3 });
  const stored = await passwords.hash('grapefruit lamp seventy');
  const answers = await Promise.allSettled(
    Array.from({ length: 10 }, () => passwords.verify(stored, 'grapefruit lamp seventy')),
  );
  const refused = answers.filter((answer) => answer.status === 'rejected');
  expect(refused).toHaveLength(6);
  for (const { reason } of refused)
    expect(reason).toMatchObject({ type: 'service_unavailable', code: 503 });
  expect(answers.filter((answer) => answer.status === 'fulfilled' && answer.value)).toHaveLength(4);
  expect(await passwords.verify(stored, 'grapefruit lamp seventy')).toBe(true);
});

test('compatibility forms are one password; no account is no match', async () => {
  const passwords = createPasswords();
  const stored = await passwords.hash('ﬁve Ångström ①');
  expect(await passwords.verify(stored, 'five A\u030angstro\u0308m 1')).toBe(true);
  expect(await passwords.verify(stored, 'five angstrom 1')).toBe(false);
  expect(await passwords.verify(null, 'a password that nobody has')).toBe(false);
  expect([needsRehash(stored), needsRehash(stored.replace('t=2', 't=1'))]).toEqual([false, true]);
});
