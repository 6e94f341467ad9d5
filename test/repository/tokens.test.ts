/** What `npm run density` counts as a token. */
import { expect, test } from '@jest/globals';
import { countTokens } from './tokens.ts';

const tokensOf = (text: string): number =>
  countTokens(text).reduce((sum, { tokens }) => sum + tokens, 0);

test.each([
  ['a = b;', 4],
  ['const a_1 = 0x1f + 1_000.5e3;', 7],
  ["say('it\\'s', \"so\");", 7],
  ['a?.b ?? c', 5],
  ['(...rest) => rest', 6],
  ['a / b / c', 5],
  ['return /[/]b/g;', 3],
  ['x = /a/.test(y)', 8],
  ['`plain`', 1],
  ['`one ${two} three ${four}`', 5],
  ['`${ { a: `${b}` } }`', 9],
  ['// nothing', 0],
  ['/* none */ a', 1],
])('%s', (text, count) => {
  expect(tokensOf(text)).toBe(count);
});

test('a token counts on the line where it begins, and a comment on each of its lines', () => {
  expect(countTokens('/** one\n * two */\na; // three\n`b\nc`')).toEqual([
    { tokens: 0, comment: true },
    { tokens: 0, comment: true },
    { tokens: 2, comment: true },
    { tokens: 1, comment: false },
    { tokens: 0, comment: false },
  ]);
});
