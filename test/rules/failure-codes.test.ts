/** Which error an action with failure codes of its own answers with. */
import { expect, test } from '@jest/globals';
import { classifyFailure } from '../../services/auth/rules/failure-codes.ts';
import { contracts } from '../../shared/contracts/index.ts';
import { codeOf, NoAnswerError, StrataError } from '../../shared/errors.ts';

const failures = contracts['auth.webauthn.login.verify'].failures!;
const unreachable = new NoAnswerError('service_unavailable');

test.each<[string, unknown, string]>([
  [
    'a refused connection',
    Object.assign(new Error('away'), { code: 'ECONNREFUSED' }),
    failures.database,
  ],
  [
    'a neighbour whose database is away',
    Object.assign(new Error('away'), { data: { database: true } }),
    failures.database,
  ],
  ['a neighbour out of reach', unreachable, failures.database],
  ['a programming error', new TypeError('x is not a function'), failures.unexpected],
  ['an internal error of a neighbour', new StrataError('internal_error'), failures.unexpected],
])('%s', (...[, error, code]) => {
  const classified = classifyFailure(failures, error);
  expect(codeOf(classified)).toBe(code);
  expect(classified).toHaveProperty('cause', error);
});

test.each([
  'auth_webauthn_challenge_invalid',
  'service_unavailable',
  'auth_sso_provider_error',
  'auth_sso_provider_timeout',
] as const)('%s is an answer already and stays as it is', (code) => {
  const answer = new StrataError(code);
  expect(classifyFailure(failures, answer)).toBe(answer);
});
