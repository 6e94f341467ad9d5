/**
 * Phrases of a private English that readers stumbled over: the field's term stands in their place,
 * in what users see as well as in comments.
 */
import { expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');
const self = 'test/repository/language.test.ts';

/** What stood there, and the field's term. */
const phrases: readonly (readonly [phrase: RegExp, term: string])[] = [
  [/\bunless told\b/i, 'by default'],
  [/\bheard of\b/i, 'observed, received'],
  [/\banew\b/i, 'again'],
  [/\b(go|goes|going|gone) on\b/i, 'continue, resume'],
  [/\btaken for gone\b/i, 'marked down'],
  [/\bfor a reason of ours\b/i, 'because of an internal error'],
  [/\bbelieved\b/i, 'trusted, authenticated'],
  [/\bno good\b/i, 'invalid'],
  [/\bthe one before(?= (it|this)\b|[,.;])/i, 'the previous one'],
  [/\bstands? in for\b/i, 'is the fallback for'],
];

/** A sentence may be broken over lines of a comment. */
const inOneLine = (text: string): string => text.replaceAll(/\n\s*(?:\*|\/\/|#)?\s*/g, ' ');
const found = (text: string): string[] =>
  phrases
    .filter(([phrase]) => phrase.test(inOneLine(text)))
    .map(([phrase, term]) => `${phrase.source} → ${term}`);

test('no text of the repository has a phrase of the list', () => {
  const files = execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' }).split('\n');
  const texts = files.filter(
    (file) =>
      /\.(tsx?|mjs|cjs|md|mutant|ya?ml|css|conf)$|^\.env\.example$/.test(file) && file !== self,
  );
  expect(texts.length).toBeGreaterThan(500);
  const wrong = texts.flatMap((file) =>
    found(readFileSync(join(root, file), 'utf8')).map((each) => `${file}: ${each}`),
  );
  expect(wrong).toEqual([]);
});

test('a phrase is found over the end of a line, and in capitals', () => {
  expect(found(' * 20 unless\n * told, and what a node\n   // heard\n   // of')).toHaveLength(2);
  expect(found('# Nobody is believed')).toHaveLength(1);
  expect(found('20 by default')).toEqual([]);
});
