/** Which form of an answer `Accept` asks for. */
import { expect, test } from '@jest/globals';
import { prefers } from '../../gateway/http/preferred-type.ts';

test.each([
  [undefined, false],
  ['*/*', false],
  ['text/*', false],
  ['text/csv', true],
  ['Text/CSV; header=present', true],
  ['application/json, text/csv', true],
  ['text/csv, */*;q=0.1', true],
  ['text/csv;q=0, application/json', false],
  ['text/csv;q=0', false],
  ['text/csv;q=0.5, application/json', false],
  ['application/json;q=0.4,text/csv ; q=0.5', true],
  ['text/csv;q=0.5, application/*', false],
  ['text/csv;q=0.5, */*', false],
  ['text/csv;q=more', false],
  ['text/csvs', false],
])('%j asks for text/csv: %j', (accept, expected) => {
  expect(prefers(accept, 'text/csv')).toBe(expected);
});
