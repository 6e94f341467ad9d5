/**
 * What the console makes of edits and explanations, without a browser: patches, conflicts and
 * rungs.
 */
import { describe, expect, test } from '@jest/globals';
import { ladderOf, layers, type Explained } from '../../console/screens/ladder.ts';
import { namesIn, pointerOf, removalAt, timeAgo } from '../../console/format.ts';
import {
  applyPatch,
  conflictsOf,
  isEqual,
  patchBetween,
  placesIn,
  withValueAt,
} from '../../console/merge-patch.ts';
import { applyMergePatch } from '../../shared/schema/merge-patch.ts';
import fc from '../support/properties.ts';

/** Documents have no null in them: in a merge patch it removes. */
const leaf = fc.oneof(
  fc.integer(),
  fc.string(),
  fc.boolean(),
  fc.array(fc.integer(), { maxLength: 3 }),
);
const { document } = fc.letrec<{ document: Record<string, unknown>; value: unknown }>((tie) => ({
  document: fc.dictionary(fc.constantFrom('a', 'b', 'c', '__proto__', 'a/b~'), tie('value'), {
    maxKeys: 4,
    noNullPrototype: true,
  }),
  value: fc.oneof({ depthSize: 'small' }, leaf, tie('document')),
}));

describe('an edit as a patch', () => {
  test('makes what was edited of what was there, here and in Strata alike', () => {
    fc.assert(
      fc.property(document, document, (before, after) => {
        const patch = patchBetween(before, after);
        if (patch === undefined) return isEqual(before, after);
        const here = applyPatch(before, patch);
        const there = applyMergePatch(before, patch);
        return isEqual(here, after) && isEqual(there, after);
      }),
      { numRuns: 500 },
    );
  });

  test('leaves alone what others changed elsewhere', () => {
    const base = { a: { x: 1, y: 2 }, b: [1] };
    const mine = patchBetween(base, { a: { x: 10, y: 2 }, b: [1] })!;
    const theirs = { a: { x: 1, y: 3 }, b: [1, 2], c: true };
    expect(mine).toEqual({ a: { x: 10 } });
    expect(applyPatch(theirs, mine)).toEqual({ a: { x: 10, y: 3 }, b: [1, 2], c: true });
  });

  test('names the places that both changed, also one inside of the other', () => {
    expect(placesIn({ a: { x: 1, y: null }, b: {} })).toEqual(['/a/x', '/a/y', '/b']);
    expect(conflictsOf(['/a/x', '/b', '/c/d'], ['/a/y', '/b/inner', '/c'])).toEqual(['/b', '/c/d']);
    expect(conflictsOf(['/ab'], ['/a'])).toEqual([]);
    expect(conflictsOf(['/a', '/b'], [''])).toEqual(['/a', '/b']);
    expect(conflictsOf([''], ['/a'])).toEqual(['']);
  });

  test('names them among very many at once: a page that compares each with each stands still for seconds', () => {
    const placesOf = (name: string): string[] =>
      Array.from({ length: 20_000 }, (_, index) => `/custom/${name}_${index}/inner`);
    const began = process.cpuUsage();
    expect(conflictsOf([...placesOf('mine'), '/custom/theirs_7'], placesOf('theirs'))).toEqual([
      '/custom/theirs_7',
    ]);
    expect(process.cpuUsage(began).user / 1000).toBeLessThan(1000);
  });

  test('an emptied field is absent, and nothing else goes with it', () => {
    expect(withValueAt({ a: { x: 1, y: 2 } }, ['a', 'x'], undefined)).toEqual({ a: { y: 2 } });
    expect(withValueAt({}, ['a', 'x'], 0)).toEqual({ a: { x: 0 } });
  });

  test('a place is found by its pointer, whatever its names hold', () => {
    expect(namesIn(pointerOf(['a/b', '~c', '']))).toEqual(['a/b', '~c', '']);
    expect(removalAt('/service_overrides/cloud_run/x')).toEqual({
      service_overrides: { cloud_run: { x: null } },
    });
  });
});

describe('the ladder', () => {
  const base: Explained = {
    value: 1,
    layer: 'agent',
    source: 'agent_config_t_a',
    path: '/k',
    revision: 7,
    updated_by: 'ada',
    updated_at: '2026-01-01T00:00:00.000Z',
    shadowed: [],
  };

  test('has a rung for each layer, and says of shadowed ones who wrote their document', () => {
    const risk: Explained = {
      ...base,
      layer: 'tenant_risk',
      path: '/global_settings/o',
      revision: 3,
      updated_by: 'bob',
    };
    const key: Explained = {
      ...base,
      shadowed: [
        { layer: 'tenant_risk', value: 2, path: '/service_overrides/cloud_run/k' },
        { layer: 'env', value: 3, path: '/k' },
      ],
    };
    const rungs = ladderOf(key, { key, other: risk });
    expect(rungs.map(({ layer, state }) => [layer, state])).toEqual([
      ['service_instance', 'unset'],
      ['agent', 'decides'],
      ['tenant_risk', 'shadowed'],
      ['service_type', 'unset'],
      ['global', 'unset'],
      ['env', 'shadowed'],
    ]);
    expect(rungs[2]).toMatchObject({ value: 2, updatedBy: 'bob', revision: 3, isClearable: true });
    expect(rungs[5]).toMatchObject({ value: 3, updatedBy: null, isClearable: false });
    expect(layers).toHaveLength(rungs.length);
  });

  test('says which layer a bound overruled', () => {
    const key: Explained = {
      ...base,
      layer: 'bounds',
      value: 2,
      shadowed: [{ layer: 'agent', value: 9, path: '/k' }],
      enforced: {
        by: 'tenant',
        rule: { maximum: 2 },
        revision: 4,
        asked: { layer: 'agent', value: 9 },
      },
    };
    expect(ladderOf(key, { key })[1]).toMatchObject({
      layer: 'agent',
      state: 'overruled',
      value: 9,
    });
  });
});

test.each([
  [0, 'now'],
  [-120, '2 minutes ago'],
  [-3 * 3600, '3 hours ago'],
  [40 * 86_400, 'next month'],
])('%d seconds from now are "%s"', (seconds, words) => {
  const now = Date.parse('2026-06-01T00:00:00Z');
  expect(timeAgo(new Date(now + seconds * 1000).toISOString(), now)).toBe(words);
});
