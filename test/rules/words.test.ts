/** How a line that an operator types becomes words. */
import { expect, test } from '@jest/globals';
import { wordsOf } from '../../cli/words.ts';

test.each<[string, string[]]>([
  ['', []],
  ['   ', []],
  ['nodes', ['nodes']],
  ['  config   get\trisk  ', ['config', 'get', 'risk']],
])('blanks separate words: %j', (line, words) => {
  expect(wordsOf(line)).toEqual(words);
});

test.each<[string, string[]]>([
  [`--reason "two words"`, ['--reason', 'two words']],
  [`--reason 'two words'`, ['--reason', 'two words']],
  [`--reason="two words"`, ['--reason=two words']],
  [`--reason='two words' --dry-run`, ['--reason=two words', '--dry-run']],
  [`--reason="she said \\"no\\""`, ['--reason=she said "no"']],
  [`'a "b" c' "it's"`, ['a "b" c', "it's"]],
  [`a"b c"d'e f'g`, ['ab cde fg']],
  [`""`, ['']],
])('quotes keep blanks, also inside a word: %s', (line, words) => {
  expect(wordsOf(line)).toEqual(words);
});

test.each<[string, string[]]>([
  ['set {"a": 1, "b": [2, 3]} --dry-run', ['set', '{"a": 1, "b": [2, 3]}', '--dry-run']],
  ['set [1, "}]"] x', ['set', '[1, "}]"]', 'x']],
  [`set {"a": "it's \\"so\\""}`, ['set', `{"a": "it's \\"so\\""}`]],
  [`set '{"a": 1}'`, ['set', '{"a": 1}']],
])('JSON is one word as it is typed: %s', (line, words) => {
  expect(wordsOf(line)).toEqual(words);
});

test.each<[string, string[]]>([
  [`it's`, ["it's"]],
  [`say "no end`, ['say', '"no', 'end']],
  ['set {"a": 1', ['set', '{"a": 1']],
])('what is not closed is taken as it is: %s', (line, words) => {
  expect(wordsOf(line)).toEqual(words);
});
