/** What the log says of an error: where it came from only where nobody expected it. */
import { expect, test } from '@jest/globals';
import { describeError } from '../../shared/telemetry/log.ts';
import { StrataError } from '../../shared/errors.ts';

test.each([
  ['a refusal', new StrataError('not_found'), false],
  ['what Strata did not expect', new StrataError('internal_error'), true],
  ["an error of Node's", new Error('x'), true],
])('%s has a stack in the log: %s', (_what, error, hasStack) => {
  expect(describeError(error)).toMatchObject({ message: error.message });
  expect('stack' in (describeError(error) as object)).toBe(hasStack);
});
