/** Mutants as text: what is read, and when one no longer applies. */
import { describe, expect, test } from '@jest/globals';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { applyMutant, literally, parseMutant } from './mutant.ts';

const text = `The lease never runs out.

Whoever is cut off would serve what they have for ever.

file: shared/lease.ts
killed by: test/rules/lease.test.ts "it runs out (after T)"
killed by: test/rules/other.test.ts

--- instead of
return now < until;
--- this
return true;

--- instead of
check(a, b);
--- this
`;

test('what is read', () => {
  expect(parseMutant('lease', text)).toEqual({
    name: 'lease',
    title: 'The lease never runs out.',
    file: 'shared/lease.ts',
    tests: [
      { file: 'test/rules/lease.test.ts', name: 'it runs out (after T)' },
      { file: 'test/rules/other.test.ts', name: undefined },
    ],
    edits: [
      { from: 'return now < until;', to: 'return true;' },
      { from: 'check(a, b);', to: '' },
    ],
  });
});

test.each([
  ['what is taken out', text.replace(/^.*\n/, '\n')],
  ['file: …', text.replace(/^file.*$/m, '')],
  ['killed by: …', text.replaceAll(/^killed by.*$/gm, '')],
  ['--- instead of', text.replace(/--- instead of[^]*/, '')],
  ['--- this', text.replace('--- this\nreturn true;', '')],
])('a mutant without "%s" is refused', (missing, without) => {
  expect(() => parseMutant('lease', without)).toThrow(missing);
});

describe('the source without the mechanism', () => {
  const mutant = parseMutant('lease', text);

  test('has each text replaced, however it is broken into lines', () => {
    const source = 'before;\n  return now\n    < until;\ncheck(a,\n b);\nafter;';
    expect(applyMutant(mutant, source)).toBe('before;\n  return true;\n\nafter;');
  });

  test('is refused where a text no longer occurs, or is not unique', () => {
    expect(() => applyMutant(mutant, 'return now < until;')).toThrow(
      /lease: this text no longer occurs in shared\/lease.ts:\ncheck\(a, b\);/,
    );
    const twice = 'return now < until; return now < until; check(a, b);';
    expect(() => applyMutant(mutant, twice)).toThrow(/occurs 2 times/);
  });
});

const titlesLeftToSoak = (source: string): string[] =>
  [...source.matchAll(/soakTest\(\s*'([^']+)'/g)].map(([, title]) => title!);

test('every mutant of this folder finds its text in the source, and its tests', () => {
  const folder = import.meta.dirname;
  const inRoot = (path: string): string => join(folder, '../..', path);
  const problemsOf = (file: string): string[] => {
    try {
      const mutant = parseMutant(file, readFileSync(join(folder, file), 'utf8'));
      applyMutant(mutant, readFileSync(inRoot(mutant.file), 'utf8'));
      return mutant.tests.flatMap((each) => {
        if (!existsSync(inRoot(each.file)))
          return [`${file} names ${each.file}, which is not there`];
        // `npm run test:mutants` does not run them, and gives such a mutant no verdict.
        const { name } = each;
        const left = titlesLeftToSoak(readFileSync(inRoot(each.file), 'utf8'));
        const isLeft = name !== undefined && left.some((title) => title.includes(name));
        return isLeft ? [`${file}: only the soak runs "${name}"`] : [];
      });
    } catch (error) {
      return [(error as Error).message];
    }
  };
  const files = readdirSync(folder).filter((each) => each.endsWith('.mutant'));
  expect(files.flatMap(problemsOf)).toEqual([]);
});

test('a text is matched by what it says, not as an expression', () => {
  const pattern = new RegExp(`^${literally('a.b (c|d) [e] $1 {2}')}$`);
  expect('a.b (c|d) [e] $1 {2}').toMatch(pattern);
  expect('axb (c|d) [e] $1 {2}').not.toMatch(pattern);
});
