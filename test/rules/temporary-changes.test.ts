/** Changes that end by themselves, without a database: what becomes of each field. */
import { describe, expect, test } from '@jest/globals';
import { growth, mostGrowth } from '../support/cost.ts';
import fc, { runs } from '../support/properties.ts';
import {
  besides,
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
/** As JSON has it: without members that are undefined. */
const asJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

test('what no one changed since is what it was', () => {
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

/** A document after a temporary change, with those that are open then. */
interface Stored {
  readonly document: unknown;
  readonly open: readonly Temporary[];
}
function changed({ document: before, open }: Stored, after: unknown): Stored {
  const left = untouched(open, diff(before, after));
  const added = following({ before, after }, open, left);
  return { document: after, open: [...besides(left, added), added] };
}
/** At the end of the open change of this index. */
function ended({ document, open }: Stored, index: number): Stored {
  const after = restored(document, open[index]!) ?? document;
  return {
    document: after,
    open: untouched(open, diff(document, after), true).toSpliced(index, 1),
  };
}

describe('a change that follows another', () => {
  const first = changed({ document: { limit: 8 }, open: [] }, { limit: 5 });

  test('becomes what was there for good', () => {
    const { open } = changed(first, { limit: 2 });
    expect(restored({ limit: 2 }, open[1]!)).toEqual({ limit: 8 });
  });

  test('ends nowhere where it is what was there for good', () => {
    expect(changed(first, { limit: 8 }).open.flatMap(({ fields }) => fields)).toEqual([]);
  });

  test('leaves nothing behind once all have ended, whatever ends first', () => {
    fc.assert(
      fc.property(
        document,
        fc.array(document, { minLength: 2, maxLength: 3 }),
        fc.infiniteStream(fc.nat({ max: 2 })),
        (before, changes, turns) => {
          let standing = changes
            .map(asJson)
            .reduce<Stored>(changed, { document: asJson(before), open: [] });
          while (standing.open.length > 0)
            standing = ended(standing, turns.next().value! % standing.open.length);
          expect(standing.document).toEqual(asJson(before));
        },
      ),
      runs(400),
    );
  });
});

test('a change keeps no objects of others that hold none of its fields', () => {
  const first = changed({ document: { custom: {} }, open: [] }, { custom: { a: { n: 1 } } });
  const { open } = changed(first, { custom: { a: { n: 1 }, b: { n: 1 } } });
  expect(open.map(({ made }) => made)).toEqual([['/custom/a'], ['/custom/b']]);
});

test('what follows many changes of a large document costs no more than its length', () => {
  const perChange = 100;
  const followingMany = (count: number) => {
    const member = (index: number): string => `k${index}`;
    const valued = (value: number): unknown => ({
      custom: Object.fromEntries(Array.from({ length: count }, (_each, at) => [member(at), value])),
    });
    const earlier = Array.from({ length: count / perChange }, (_each, change) => ({
      fields: Array.from({ length: perChange }, (_field, at) => ({
        path: `/custom/${member(change * perChange + at)}`,
        value: 2,
        becomes: 1,
      })),
      made: [],
    }));
    const left = earlier.map((each) => ({ ...each, fields: [] }));
    const write = { before: valued(2), after: valued(3) };
    return () => {
      following(write, earlier, left);
    };
  };
  expect(growth(1000, followingMany)).toBeLessThanOrEqual(mostGrowth);
});

test('an object that was taken out comes back, beside what others put in its place', () => {
  const [left] = untouched([changing({ custom: { a: 1 } }, {})], diff({}, { custom: { b: 2 } }));
  expect(restored({ custom: { b: 2 } }, left!)).toEqual({ custom: { a: 1, b: 2 } });
});

test('members that were taken out come back after an object in their place has gone', () => {
  const before = { custom: { a: 1 } };
  const standing = changed(changed({ document: before, open: [] }, {}), { custom: { b: 2 } });
  expect(ended(ended(standing, 1), 0).document).toEqual(before);
});

test('what became an object comes back whole after others have changed that', () => {
  const before = { custom: true };
  const first = changed({ document: before, open: [] }, { custom: { a: 1, b: 1 } });
  const standing = changed(first, { custom: { a: 2, b: 1 } });
  expect(ended(ended(standing, 0), 0).document).toEqual(before);
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
