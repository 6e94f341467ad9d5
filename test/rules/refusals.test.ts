/**
 * What an error of Strata's own carries: where it came from is looked for in what nobody expected,
 * and found at a price.
 */
import { expect, test } from '@jest/globals';
import { StrataError } from '../../shared/errors.ts';

const hasStack = ({ stack }: Error): boolean => /\n\s+at /.test(stack ?? '');

test('a refusal has no stack, and what nobody expected has one, also after it', () => {
  const errors = [new StrataError('not_found'), new StrataError('internal_error'), new Error('x')];
  expect(errors.map(hasStack)).toEqual([false, true, true]);
});
