/**
 * Bounds on merged layers: against an oracle that tries every value of a small world, and as tables
 * of cases.
 */
import { describe, expect, test } from '@jest/globals';
import { isDeepStrictEqual } from 'node:util';
import { applyBounds } from '../../services/config-resolver/rules/apply-bounds.ts';
import { layeredMerge, type Layer } from '../../services/config-resolver/rules/layered-merge.ts';
import { boundsProblems } from '../../shared/bounds/bounds-document.ts';
import type { BoundSet } from '../../shared/bounds/bounds-in-force.ts';
import { schemaOfKey } from '../../shared/bounds/known-keys.ts';
import { valuesOfInstance } from '../../shared/bounds/placed-values.ts';
import { Bounds, type Bound } from '../../shared/contracts/bounds.ts';
import { problemsOf } from '../../shared/schema/validate.ts';
import fc, { runs } from '../support/properties.ts';

// ---------------------------------------------------------------- a small world

const numbers = [0, 0.5, 1, 2, 2.5, 3, 4, 5, 6];
const others = [null, true, false, 'a', 'forever', [], [1], {}, { a: 1 }];
const world: readonly unknown[] = [...numbers, ...others];
const types = ['boolean', 'integer', 'number', 'string', 'array', 'object'] as const;

const fits: Readonly<Record<string, (value: unknown, limit: never) => boolean>> = {
  const: (value, limit) => isDeepStrictEqual(value, limit),
  enum: (value, limit: unknown[]) => limit.some((each) => isDeepStrictEqual(value, each)),
  minimum: (value, limit: number) => typeof value === 'number' && value >= limit,
  maximum: (value, limit: number) => typeof value === 'number' && value <= limit,
  type(value, limit: string) {
    if (limit === 'integer') return typeof value === 'number' && value % 1 === 0;
    if (limit === 'array') return Array.isArray(value);
    if (limit === 'object')
      return typeof value === 'object' && value !== null && !Array.isArray(value);
    return typeof value === limit;
  },
};
/** Whether a bound allows a value, keyword by keyword. */
const allows = (rule: Bound, value: unknown): boolean =>
  Object.entries(rule).every(([keyword, limit]) => fits[keyword]?.(value, limit as never) ?? true);

const value = fc.constantFrom(...world);
const number = fc.constantFrom(...numbers);
const rule: fc.Arbitrary<Bound> = fc
  .record(
    {
      const: value,
      minimum: number,
      maximum: number,
      enum: fc.uniqueArray(value, { minLength: 1, maxLength: 3 }),
      type: fc.constantFrom(...types),
    },
    { requiredKeys: [] },
  )
  .filter((each) => Object.keys(each).length > 0 && world.some((one) => allows(each, one)));
const bound: fc.Arbitrary<Bound> = fc
  .tuple(
    rule,
    fc.constantFrom<Bound['mode'][]>(undefined, undefined, 'enforce', 'warn'),
    fc.constantFrom<(string[] | undefined)[]>(undefined, undefined, ['cloud_run'], ['cloud_sql']),
  )
  .map(([each, mode, types]) => ({
    ...each,
    ...(mode && { mode }),
    ...(types && { service_types: types }),
  }));
const names = ['a', 'b', '__proto__'];
const dictionary = <T>(member: fc.Arbitrary<T>): fc.Arbitrary<Record<string, T>> =>
  fc
    .array(fc.tuple(fc.constantFrom(...names), member), { maxLength: 3 })
    .map((entries) => Object.fromEntries(entries));
const layers: fc.Arbitrary<Layer[]> = fc.array(fc.oneof(fc.constant(null), dictionary(value)), {
  maxLength: 6,
});
const bounds = dictionary(bound);
const serviceType = fc.constantFrom(null, 'cloud_run', 'cloud_sql');

const setsOf = (platform: Bounds, tenant: Bounds): BoundSet[] => [
  { by: 'platform', bounds: platform, revision: 1 },
  { by: 'tenant', bounds: tenant, revision: 2 },
];

/** What a key becomes, tried value by value; `absent` where there is none. */
const absent = Symbol('absent');
function oracle(key: string, stack: readonly Layer[], rules: readonly Bound[]): unknown {
  const rungs = stack
    .flatMap((layer) => (layer && Object.hasOwn(layer, key) ? [layer[key]] : []))
    .toReversed();
  let standing = 0;
  let held: unknown = rungs.length > 0 ? rungs[0] : absent;
  const inForce: Bound[] = [];
  for (const each of rules) {
    const together = [...inForce, each];
    const allowed = world.filter((one) => together.every((other) => allows(other, one)));
    if (allowed.length === 0) continue;
    inForce.push(each);
    const isAllowed = (one: unknown): boolean =>
      one !== absent && together.every((other) => allows(other, one));
    const fixed = together.filter((other) => Object.hasOwn(other, 'const'));
    if (held === absent && fixed.length === 0) continue;
    if (isAllowed(held)) continue;
    if (fixed.length > 0) {
      held = fixed[0]!.const;
      continue;
    }
    const most = Math.min(...together.map(({ maximum = Infinity }) => maximum));
    const least = Math.max(...together.map(({ minimum = -Infinity }) => minimum));
    const isWhole = together.some(({ type }) => type === 'integer');
    const inRange = numbers.filter(
      (one) => one >= least && one <= most && (!isWhole || one % 1 === 0),
    );
    if (typeof held === 'number') {
      const asked = held;
      const [nearest] = inRange.toSorted(
        (one, two) => Math.abs(one - asked) - Math.abs(two - asked),
      );
      // Of whole numbers from 0.5 on, 1 is the least.
      const isOutside = asked < inRange[0]! || asked > inRange.at(-1)!;
      if (isOutside && isAllowed(nearest)) {
        held = nearest;
        continue;
      }
    }
    const lower = rungs.findIndex((one, index) => index > standing && isAllowed(one));
    if (lower > 0) {
      standing = lower;
      held = rungs[lower];
      continue;
    }
    const lists = together.flatMap(({ enum: choices }) => (choices ? [choices] : []));
    if (lists.length > 0) held = lists.at(-1)!.find(isAllowed);
    else if (least > -Infinity) held = inRange[0];
    else if (most < Infinity) held = inRange.at(-1);
    else held = absent;
  }
  return held;
}

const inForceFor = (key: string, type: string | null, sets: readonly Bounds[]): Bound[] =>
  sets.flatMap((each) => {
    const rule = Object.hasOwn(each, key) ? each[key]! : undefined;
    if (rule === undefined || rule.mode === 'warn') return [];
    const isFor = rule.service_types === undefined || rule.service_types.includes(type ?? '');
    return isFor ? [rule] : [];
  });

describe('apply_bounds', () => {
  test('is what an oracle says that tries every value, over random layers and bounds', () => {
    fc.assert(
      fc.property(layers, bounds, bounds, serviceType, (stack, platform, tenant, type) => {
        const before = JSON.stringify([stack, platform, tenant]);
        const { values } = applyBounds(stack, setsOf(platform, tenant), type);
        expect(Object.getPrototypeOf(values)).toBe(Object.prototype);
        for (const key of names) {
          const wanted = oracle(key, stack, inForceFor(key, type, [platform, tenant]));
          const found = Object.hasOwn(values, key)
            ? Object.getOwnPropertyDescriptor(values, key)!.value
            : absent;
          // A call of `expect` for each of them takes longer than all else here.
          if (!isDeepStrictEqual(found, wanted)) expect([key, found]).toEqual([key, wanted]);
        }
        expect(JSON.stringify([stack, platform, tenant])).toBe(before);
      }),
      runs(300),
    );
  });

  test('no value is outside an enforced bound of the platform, nor of the tenant where it yields to none', () => {
    fc.assert(
      fc.property(layers, bounds, bounds, serviceType, (stack, platform, tenant, type) => {
        const { values } = applyBounds(stack, setsOf(platform, tenant), type);
        for (const [key, one] of Object.entries(values)) {
          const [ofPlatform] = inForceFor(key, type, [platform]);
          const [ofTenant] = inForceFor(key, type, [tenant]);
          if (ofPlatform && !allows(ofPlatform, one)) expect([key, one]).toBe(ofPlatform);
          const mayBoth = world.some(
            (each) => allows(ofPlatform ?? {}, each) && ofTenant && allows(ofTenant, each),
          );
          if (ofTenant && mayBoth && !allows(ofTenant, one)) expect([key, one]).toBe(ofTenant);
        }
      }),
      runs(100),
    );
  });

  test('applied again it changes nothing, and without bounds nothing at all', () => {
    fc.assert(
      fc.property(layers, bounds, bounds, serviceType, (stack, platform, tenant, type) => {
        const sets = setsOf(platform, tenant);
        const once = applyBounds(stack, sets, type);
        expect(applyBounds([once.values], sets, type).values).toEqual(once.values);
        expect(applyBounds(stack, [], type)).toEqual({
          values: layeredMerge(stack),
          bounded: new Map(),
        });
      }),
      runs(100),
    );
  });

  test('a bound in the mode warn changes no value', () => {
    const warning = { a: { maximum: 3, mode: 'warn' as const } };
    const { values, bounded } = applyBounds([{ a: 5 }], setsOf(warning, {}), null);
    expect(values).toEqual({ a: 5 });
    expect(bounded.get('a')?.warned).toEqual([{ by: 'platform', rule: warning.a, revision: 1 }]);
    expect(bounded.get('a')?.enforced).toBeUndefined();
  });

  test.each<[string, Layer[], Bounds, Record<string, unknown>]>([
    ['a number becomes its limit', [{ a: 2 }, { a: 9 }], { a: { maximum: 5 } }, { a: 5 }],
    ['const replaces', [{ a: true }], { a: { const: false } }, { a: false }],
    ['const sets what is absent', [{}], { a: { const: false } }, { a: false }],
    ['others leave it absent', [{}], { a: { minimum: 1 } }, {}],
    ['the nearest lower layer', [{ a: 2 }, { a: 9 }, { a: 'x' }], { a: { maximum: 5 } }, { a: 2 }],
    ['else the limit', [{ a: 'x' }], { a: { maximum: 5 } }, { a: 5 }],
    ['else the first choice', [{ a: 'x' }], { a: { enum: ['y', 'z'] } }, { a: 'y' }],
    ['of another type: absent', [{ a: 'x' }], { a: { type: 'boolean' } }, {}],
    ['null is no number', [{ a: null }], { a: { minimum: 1 } }, { a: 1 }],
  ])('%s', (_what, stack, platform, wanted) => {
    expect(applyBounds(stack, setsOf(platform, {}), null).values).toEqual(wanted);
  });

  test('known keys have their type without any bound: the nearest lower layer that has it holds', () => {
    const stack = [{ http_client_timeout_seconds: 30 }, { http_client_timeout_seconds: 'forever' }];
    const { values, bounded } = applyBounds(stack, [], null);
    expect(values).toEqual({ http_client_timeout_seconds: 30 });
    expect(bounded.get('http_client_timeout_seconds')).toEqual({
      held: { value: 30, layer: 0 },
      asked: { value: 'forever', layer: 1 },
      enforced: {
        key: 'http_client_timeout_seconds',
        by: 'type',
        rule: { type: 'integer' },
        revision: null,
      },
      warned: [],
    });
    expect(applyBounds([{ automation_enabled: 'yes' }], [], null).values).toEqual({});
  });
});

describe('pairs', () => {
  test.each<[string, number, number, Bounds, number, number]>([
    ['the lower one follows', 7, 10, { max_instances: { maximum: 5 } }, 5, 5],
    ['also down to a fixed value', 7, 10, { max_instances: { const: 2 } }, 2, 2],
    ['raised within', 1, 10, { min_instances: { minimum: 4 } }, 4, 10],
    ['the upper one, where the lower may not', 1, 3, { min_instances: { minimum: 5 } }, 5, 5],
    [
      'both, where both are bound',
      1,
      3,
      { min_instances: { minimum: 5 }, max_instances: { enum: [2, 6, 8] } },
      5,
      6,
    ],
  ])('%s', (_what, min, max, platform, wantedMin, wantedMax) => {
    const stack = [{ min_instances: min, max_instances: max }];
    expect(applyBounds(stack, setsOf(platform, {}), null).values).toEqual({
      min_instances: wantedMin,
      max_instances: wantedMax,
    });
  });

  test('a pair that no bound touches is left as the layers have it', () => {
    const stack = [{ max_cost_impact_auto: 20, max_cost_impact_approval: 10 }];
    expect(applyBounds(stack, setsOf({}, {}), null).values).toEqual(stack[0]);
  });

  const count = fc.integer({ min: 0, max: 12 });
  const limit: fc.Arbitrary<Bound> = fc.oneof(
    fc.record({ minimum: count }),
    fc.record({ maximum: count }),
    fc.record({ const: count }),
    fc.record({ enum: fc.uniqueArray(count, { minLength: 1, maxLength: 3 }) }),
  );
  const pairBounds: fc.Arbitrary<Bounds> = fc
    .record({ min_instances: limit, max_instances: limit }, { requiredKeys: [] })
    .map((each) => each as Bounds);
  const instance = fc.tuple(count, count).map(([one, two]) => ({
    min_instances: Math.min(one, two),
    max_instances: Math.max(one, two),
  }));
  const isFree = (own: Bounds, above: BoundSet[]): boolean =>
    boundsProblems({ by: 'tenant', next: own, current: null, above, serviceTypes: [] }).length ===
    0;

  test('stay in order within all bounds that a write admits', () => {
    fc.assert(
      fc.property(instance, pairBounds, pairBounds, (held, platform, tenant) => {
        fc.pre(isFree(platform, []) && isFree(tenant, setsOf(platform, {}).slice(0, 1)));
        const { values } = applyBounds([held], setsOf(platform, tenant), null);
        expect(values.min_instances).toBeLessThanOrEqual(values.max_instances as number);
        for (const [key, one] of Object.entries(values))
          for (const each of [platform, tenant])
            if (each[key]) expect([key, allows(each[key], one)]).toEqual([key, true]);
      }),
      runs(150),
    );
  });

  test('a tenant whose bound leaves no order yields, for the platform stays in force', () => {
    const sets = setsOf({ min_instances: { minimum: 5 } }, { max_instances: { maximum: 3 } });
    expect(applyBounds([{ min_instances: 1, max_instances: 9 }], sets, null).values).toEqual({
      min_instances: 5,
      max_instances: 9,
    });
  });
});

describe('a document of bounds', () => {
  const known = ['cloud_run', 'cloud_sql'];
  const platform: BoundSet = {
    by: 'platform',
    revision: 3,
    bounds: {
      max_cost_impact_auto: { maximum: 10 },
      automation_enabled: { const: false },
      region: { enum: ['eu', 'us'], service_types: ['cloud_run'] },
      min_instances: { minimum: 2 },
    },
  };
  const pathsOf = (next: Bounds, current: Bounds | null = null): string[] =>
    boundsProblems({ by: 'tenant', next, current, above: [platform], serviceTypes: known }).map(
      ({ path }) => path,
    );

  test.each<[string, Bounds, string[]]>([
    ['names a keyword', { a: { reason: 'x' } }, ['/a']],
    [
      'limits what is a number',
      { business_hours_only: { maximum: 1 } },
      ['/business_hours_only/maximum'],
    ],
    ['also where the bound says the type', { a: { type: 'string', minimum: 1 } }, ['/a/minimum']],
    [
      'limits whole numbers by whole numbers',
      { approval_timeout_minutes: { minimum: 2.5 } },
      ['/approval_timeout_minutes/minimum'],
    ],
    ['also where the bound says so', { a: { type: 'integer', maximum: 2.5 } }, ['/a/maximum']],
    ['has an order', { a: { minimum: 3, maximum: 2 } }, ['/a']],
    [
      'allows a value of the key',
      { max_resource_scaling: { maximum: 0 } },
      ['/max_resource_scaling'],
    ],
    ['fixes a value of the type', { max_instances: { const: 'many' } }, ['/max_instances/const']],
    ['chooses among such', { max_instances: { enum: [1, 'two'] } }, ['/max_instances/enum/1']],
    ['has the type of the key', { tools: { type: 'object' } }, ['/tools/type']],
    [
      'names service types that there are',
      { a: { const: 1, service_types: ['cloud-run'] } },
      ['/a/service_types/0'],
    ],
    ['keeps to the platform', { max_cost_impact_auto: { minimum: 11 } }, ['/max_cost_impact_auto']],
    ['also to its const', { automation_enabled: { const: true } }, ['/automation_enabled']],
    ['where both hold', { region: { const: 'asia', service_types: ['cloud_run'] } }, ['/region']],
    ['and may differ elsewhere', { region: { const: 'asia', service_types: ['cloud_sql'] } }, []],
    ['and may warn', { automation_enabled: { const: true, mode: 'warn' } }, []],
    ['leaves an order to pairs', { max_instances: { maximum: 1 } }, ['/max_instances']],
    [
      'in itself, too',
      { max_cost_impact_approval: { maximum: 4 }, max_cost_impact_auto: { minimum: 5 } },
      ['/max_cost_impact_approval'],
    ],
    ['may be narrower', { max_cost_impact_auto: { maximum: 5 }, a: { minimum: 0.5 } }, []],
  ])('%s', (_what, next, wanted) => {
    expect(problemsOf(Bounds, next)).toEqual([]);
    expect(pathsOf(next)).toEqual(wanted);
  });

  test('is judged for what it changes: what the platform forbade later stays', () => {
    const current: Bounds = { automation_enabled: { const: true } };
    expect(pathsOf({ ...current, a: { const: 1 } }, current)).toEqual([]);
    expect(pathsOf({ automation_enabled: { const: true, reason: 'x' } }, current)).toEqual([
      '/automation_enabled',
    ]);
  });
});

test('what an instance is named and found by is no value that a bound is about', () => {
  const named = { service_id: 'a', service_type: 'cloud_run', service_name: 'A', project_id: 'p' };
  const found = { owner: 'team-payments', labels: { tier: 'critical' } };
  const values = valuesOfInstance({ ...named, ...found, min_instances: 2 });
  expect(values.map(({ key }) => key)).toEqual(['min_instances']);
  expect(Object.keys({ ...named, ...found }).filter(schemaOfKey)).toEqual([]);
});
