/**
 * What the console makes of edits and explanations, without a browser: patches, conflicts and
 * rungs.
 */
import { describe, expect, test } from '@jest/globals';
import { ladderOf, titleOf, type Explained } from '../../console/screens/ladder.ts';
import { longJson, removalAt, shortJson, timeAgo } from '../../console/format.ts';
import { conflictsOf, patchBetween, placesIn, withMember } from '../../console/merge-patch.ts';
import { isEqual } from '../../shared/schema/diff.ts';
import { namesOf, pointerTo } from '../../shared/schema/json-pointer.ts';
import { applyMergePatch } from '../../shared/schema/merge-patch.ts';
import fc, { runs } from '../support/properties.ts';

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
  test('makes what was edited of what was there', () => {
    fc.assert(
      fc.property(document, document, (before, after) => {
        const patch = patchBetween(before, after);
        if (patch === undefined) return isEqual(before, after);
        return isEqual(applyMergePatch(before, patch), after);
      }),
      runs(150),
    );
  });

  test('leaves alone what others changed elsewhere', () => {
    const base = { a: { x: 1, y: 2 }, b: [1] };
    const mine = patchBetween(base, { a: { x: 10, y: 2 }, b: [1] })!;
    const theirs = { a: { x: 1, y: 3 }, b: [1, 2], c: true };
    expect(mine).toEqual({ a: { x: 10 } });
    expect(applyMergePatch(theirs, mine)).toEqual({ a: { x: 10, y: 3 }, b: [1, 2], c: true });
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
    expect(withMember({ x: 1, y: 2 }, 'x', undefined)).toEqual({ y: 2 });
    expect(withMember({}, 'x', 0)).toEqual({ x: 0 });
  });

  test('a place is found by its pointer, whatever its names hold', () => {
    expect(namesOf(pointerTo(['a/b', '~c', '']))).toEqual(['a/b', '~c', '']);
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

  const by = (author: string | null, revision: number | null) => ({
    source: 'somewhere',
    revision,
    updated_by: author,
    updated_at: author && '2026-01-02T00:00:00.000Z',
  });

  test('has a rung for each value, two of one layer too, and says who set each', () => {
    const key: Explained = {
      ...base,
      shadowed: [
        { layer: 'tenant_risk', value: 2, path: '/service_overrides/cloud_run/k', ...by('bob', 3) },
        { layer: 'tenant_risk', value: 8, path: '/global_settings/k', ...by('eve', 2) },
        { layer: 'env', value: 3, path: '/k', ...by(null, null) },
      ],
    };
    const rungs = ladderOf(key);
    expect(rungs.map((rung) => [titleOf(rung), rung.state, rung.value, rung.updatedBy])).toEqual([
      ['Service instance', 'unset', undefined, undefined],
      ['Agent configuration', 'decides', 1, 'ada'],
      ['Tenant risk limits for cloud_run', 'shadowed', 2, 'bob'],
      ['Tenant risk limits for all services', 'shadowed', 8, 'eve'],
      ['Service type', 'unset', undefined, undefined],
      ['Global entry', 'unset', undefined, undefined],
      ['Built-in default', 'shadowed', 3, null],
    ]);
    expect(rungs.map(({ isClearable }) => isClearable)).toEqual([
      false,
      true,
      true,
      false,
      false,
      false,
      false,
    ]);
  });

  test('says which layer a bound overruled', () => {
    const key: Explained = {
      ...base,
      layer: 'bounds',
      value: 2,
      shadowed: [{ layer: 'agent', value: 9, path: '/k', ...by('ada', 1) }],
      enforced: {
        by: 'tenant',
        rule: { maximum: 2 },
        revision: 4,
        asked: { layer: 'agent', value: 9 },
      },
    };
    expect(ladderOf(key)[1]).toMatchObject({
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

test('a text in a value turns nothing of it around, and is the same text when it is read again', () => {
  const value = { note: '\u202E\u2066', instances: 12, owner: 'شركة' };
  expect(shortJson(value)).toBe('{"note":"\\u202e\\u2066","instances":12,"owner":"شركة"}');
  expect(JSON.parse(longJson(value))).toEqual(value);
});
