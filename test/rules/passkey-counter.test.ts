import { expect, test } from '@jest/globals';
import { classify, failureCodes } from '../../services/auth/rules/classify.ts';
import { judgeCounter } from '../../services/auth/rules/passkey-counter.ts';
import { codeOf, StrataError } from '../../shared/errors.ts';

test.each([
  // stored, presented, of a key that stays on its device, of one that is synchronized
  [0, 0, 'fine', 'fine'],
  [0, 1, 'fine', 'fine'],
  [5, 6, 'fine', 'fine'],
  [5, 4_294_967_295, 'fine', 'fine'],
  [5, 5, 'cloned', 'suspicious'],
  [5, 4, 'cloned', 'suspicious'],
  [5, 0, 'cloned', 'suspicious'],
] as const)('a counter of %i, then %i', (...[counter, presented, bound, synchronized]) => {
  expect(judgeCounter({ counter, backup_eligible: false }, presented)).toBe(bound);
  expect(judgeCounter({ counter, backup_eligible: true }, presented)).toBe(synchronized);
});

test('passkey login names its own failures, and keeps an answer that is one', () => {
  const route = 'auth.webauthn.login.verify';
  const { database, unexpected } = failureCodes[route];
  expect(codeOf(classify(route, Object.assign(new Error('away'), { code: 'ECONNREFUSED' })))).toBe(
    database,
  );
  expect(codeOf(classify(route, new TypeError('x is not a function')))).toBe(unexpected);
  const own = new StrataError('auth_webauthn_challenge_invalid');
  expect(classify(route, own)).toBe(own);
});
