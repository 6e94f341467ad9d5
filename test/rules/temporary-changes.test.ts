/** Changes that end by themselves, without a database: what becomes of each field. */
import { describe, expect, test } from '@jest/globals';
import fc, { runs } from '../support/properties.ts';
import {
  following,
  restored,
  temporaryOf,
  untouched,
  type Temporary,
} from '../../shared/documents/temporary-changes.ts';
import { diff } from '../../shared/schema/diff.ts';

const changing = (before: unknown, after: unknown): Temporary => temporaryOf(diff(before, after));

/** Documents as PATCH can leave them, whose names are few, so that changes meet. */
const names = fc.constantFrom('a', 'b', 'c/d', 'e~f', '__proto__');
const { document } = fc.letrec((tie) => ({
  document: fc
    .array(fc.tuple(names, tie('value')), { maxLength: 4 })
    .map((members) => Object.fromEntries(members)),
  value: fc.oneof(
    { maxDepth: 3 },
    fc.integer({ min: 0, max: 3 }),
    fc.boolean(),
    fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 2 }),
    tie('document'),
  ),
}));
test('what nobody changed since is what it was', () => {
  fc.assert(
    fc.property(document, document, (before, after) => {
      const change = changing(before, after);
      fc.pre(change.fields.length > 0);
      expect(restored(after, change)).toEqual(before);
    }),
    runs(400),
  );
});

test('what others changed since stays, and the rest is what it was', () => {
  fc.assert(
    fc.property(document, document, document, (before, after, since) => {
      const [left] = untouched([changing(before, after)], diff(after, since));
      const end = restored(since, left!) ?? since;
      // An object that it made goes once it is empty.
      const fields = new Set([...left!.fields.map(({ path }) => path), ...left!.made]);
      for (const { path } of temporaryOf(diff(since, end)).fields) expect(fields).toContain(path);
      const own = new Map(left!.fields.map(({ path, becomes }) => [path, becomes]));
      for (const { path, value } of temporaryOf(diff(since, end)).fields)
        expect([path, value]).toEqual([path, own.get(path)]);
    }),
    runs(400),
  );
});

describe('a change that follows another', () => {
  const first = changing({ limit: 8 }, { limit: 5 });

  test('becomes what was there for good', () => {
    const next = following(changing({ limit: 5 }, { limit: 2 }), [first]);
    expect(restored({ limit: 2 }, next)).toEqual({ limit: 8 });
  });

  test('ends nowhere where it is what was there for good', () => {
    expect(following(changing({ limit: 5 }, { limit: 8 }), [first]).fields).toEqual([]);
  });

  test('ends as it found it where that was for good', () => {
    const next = following(changing({ limit: 6 }, { limit: 2 }), [first]);
    expect(restored({ limit: 2 }, next)).toEqual({ limit: 6 });
  });
});

test('an object that was taken out comes back, beside what others put in its place', () => {
  const removal = changing({ custom: { a: 1 } }, {});
  const addition = changing({}, { custom: { b: 2 } });
  const [left] = untouched([removal], diff({}, { custom: { b: 2 } }));
  const restoredFirst = restored({ custom: { b: 2 } }, left!);
  expect(restoredFirst).toEqual({ custom: { a: 1, b: 2 } });
  expect(restored(restoredFirst, following(addition, [removal]))).toEqual({ custom: { a: 1 } });
});

test('the object that it made goes with its last field, and stays with others', () => {
  const change = changing({}, { overrides: { cloud_run: { limit: 5 } } });
  expect(restored({ overrides: { cloud_run: { limit: 5 } } }, change)).toEqual({});
  const others = { overrides: { cloud_run: { limit: 5 }, vm: { limit: 1 } } };
  expect(restored(others, change)).toEqual({ overrides: { vm: { limit: 1 } } });
});

test('there is nothing to restore where each field is something else by now', () => {
  expect(restored({ limit: 6 }, changing({ limit: 8 }, { limit: 5 }))).toBeUndefined();
});
