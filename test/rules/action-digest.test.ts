/** The digest that stands for exactly one action: vectors of another language, and mutations. */
import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  digestOf,
  partProblems,
  type ExactAction,
} from '../../services/notifier/rules/action-digest.ts';
import fc, { times } from '../support/properties.ts';

interface Vector {
  readonly name: string;
  readonly action: ExactAction;
  readonly digest: string;
}
const file = join(import.meta.dirname, 'action-digest.json');
const vectors = JSON.parse(readFileSync(file, 'utf8')) as Vector[];

test.each(vectors.map((vector) => [vector.name, vector] as const))(
  'is what Python makes of %s',
  (_name, { action, digest }) => {
    expect(digestOf(action)).toBe(digest);
  },
);

test('is another one for each action in which one thing differs', () => {
  const { action } = vectors[1]!;
  const fields = Object.keys(action) as (keyof ExactAction)[];
  const seen = new Set([digestOf(action)]);
  const values = fc.sample(fc.uniqueArray(fc.jsonValue(), { minLength: 40, maxLength: 60 }), {
    numRuns: 3 * times,
    seed: 7,
  });
  let count = 0;
  for (const [field, value] of fields.flatMap((name) =>
    values.flat().map((each) => [name, each] as const),
  )) {
    const mutated = { ...action, [field]: [count, value] };
    const digest = digestOf(mutated);
    expect(seen.has(digest)).toBe(false);
    seen.add(digest);
    count += 1;
  }
  expect(count).toBeGreaterThanOrEqual(1000 * times);
  for (const field of fields)
    expect(digestOf({ ...action, [field]: null })).not.toBe(digestOf(action));
});

test('the order of names is no difference, that of a list is one', () => {
  const { action } = vectors[1]!;
  const turned = Object.fromEntries(Object.entries(action).toReversed()) as unknown as ExactAction;
  expect(digestOf(turned)).toBe(digestOf(action));
  const parameters = { ...(action.parameters as object), regions: ['us', 'eu'] };
  expect(digestOf({ ...action, parameters })).not.toBe(digestOf(action));
});

test.each([
  ['a password', { db: { password: 'x' } }, ['/parameters/db/password']],
  ['in a list', { all: [{ API_KEY: 'x' }] }, ['/parameters/all/0/API_KEY']],
  ['a passphrase', { passphrase: 'x' }, ['/parameters/passphrase']],
  ['an abbreviation', { DB_PWD: 'x' }, ['/parameters/DB_PWD']],
  ['in two words', { 'Private Key': 'x' }, ['/parameters/Private Key']],
  ['too large', { text: 'x'.repeat(32 * 1024) }, ['/parameters']],
  ['nothing wrong', { text: 'x'.repeat(32_000), tokens: undefined }, ['/parameters/tokens']],
  ['good', { min_instances: 4 }, []],
])('parameters: %s', (_what, parameters, paths) => {
  expect(partProblems({ parameters }).map(({ path }) => path)).toEqual(paths);
});
