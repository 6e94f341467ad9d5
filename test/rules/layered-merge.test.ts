/** Merging layers, and saying afterwards which layer decided what. */
import { describe, expect, test } from '@jest/globals';
import { applyBounds } from '../../services/config-resolver/rules/apply-bounds.ts';
import {
  layeredMerge,
  resolveValue,
  type Layer,
} from '../../services/config-resolver/rules/layered-merge.ts';
import {
  effectiveValues,
  environmentDefaults,
  type Sources,
} from '../../services/config-resolver/rules/layers.ts';
import { explainValues } from '../../services/config-resolver/rules/explain.ts';
import type { BoundSet } from '../../shared/bounds/bounds-in-force.ts';
import type { Bounds } from '../../shared/contracts/bounds.ts';
import { layerNames, type LayerName } from '../../shared/contracts/effective-config.ts';
import { riskDefaults } from '../../shared/contracts/risk.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import fc, { runs } from '../support/properties.ts';

const name = fc.oneof(
  fc.constantFrom(
    'a',
    'b',
    'c',
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
    '',
    '1',
    '0',
  ),
  fc.string(),
);
const value = fc.oneof(
  fc.constant(null),
  fc.jsonValue(),
  fc.dictionary(name, fc.jsonValue(), { maxKeys: 3 }),
);
/** Own keys only, `__proto__` among them, as JSON.parse makes them. */
const layer: fc.Arbitrary<Layer> = fc.oneof(
  { weight: 1, arbitrary: fc.constantFrom(null, undefined) },
  { weight: 1, arbitrary: fc.constant({}) },
  {
    weight: 6,
    arbitrary: fc
      .array(fc.tuple(name, value), { maxLength: 12 })
      .map((entries) => Object.fromEntries(entries)),
  },
  {
    weight: 1,
    arbitrary: fc
      .array(fc.tuple(fc.string(), value), { minLength: 200, maxLength: 400 })
      .map((entries) => Object.fromEntries(entries)),
  },
);

/** Asks, for each key on its own, which is the last layer that has it. */
function oracle(layers: readonly Layer[]): Map<string, unknown> {
  const result = new Map<string, unknown>();
  const keys = new Set(layers.flatMap((each) => (each ? (Reflect.ownKeys(each) as string[]) : [])));
  for (const key of keys) {
    for (let index = layers.length - 1; index >= 0; index -= 1) {
      const descriptor = layers[index]
        ? Object.getOwnPropertyDescriptor(layers[index], key)
        : undefined;
      if (!descriptor) continue;
      result.set(key, descriptor.value);
      break;
    }
  }
  return result;
}

describe('layered_merge', () => {
  test('is what an independent oracle says, over random layers', () => {
    fc.assert(
      fc.property(fc.array(layer, { maxLength: 8 }), (layers) => {
        const before = JSON.stringify(layers);
        const merged = layeredMerge(layers);
        expect(Object.getPrototypeOf(merged)).toBe(Object.prototype);
        const wanted = oracle(layers);
        expect(Reflect.ownKeys(merged).sort()).toEqual([...wanted.keys()].sort());
        const isOther = ([key, expected]: [string, unknown]): boolean =>
          !Object.is(Object.getOwnPropertyDescriptor(merged, key)!.value, expected);
        expect([...wanted].filter(isOther)).toEqual([]);
        expect(JSON.stringify(layers)).toBe(before);
      }),
      runs(60),
    );
  });

  test.each([
    ['nothing', [], {}],
    ['only empty layers', [null, {}, undefined], {}],
    ['a later null wins', [{ a: 1 }, { a: null }], { a: null }],
    [
      'a nested object is replaced entirely',
      [{ a: { x: 1, y: 2 } }, { a: { x: 3 } }],
      { a: { x: 3 } },
    ],
    [
      'each layer over those before it, lowest first',
      [{ a: 'env', b: 'env' }, { a: 'global' }, null, { c: 'risk' }],
      { a: 'global', b: 'env', c: 'risk' },
    ],
  ])('%s', (_what, layers, expected) => {
    expect(layeredMerge(layers as Layer[])).toEqual(expected);
  });
});

test('resolve_value is the first that is not null, else the default, else null', () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.constantFrom(null, undefined), fc.jsonValue())),
      fc.option(fc.jsonValue()),
      (values, fallback) => {
        let wanted: unknown = fallback;
        for (const each of values.toReversed())
          if (each !== null && each !== undefined) wanted = each;
        expect(resolveValue(values, fallback)).toBe(wanted);
      },
    ),
  );
  expect([resolveValue([]), resolveValue([null], 0), resolveValue([null, false, 1])]).toEqual([
    null,
    0,
    false,
  ]);
});

describe('explain', () => {
  const written = { revision: 1, updated_by: 'someone', updated_at: '2026-01-01T00:00:00.000Z' };
  const settings = loadSettings({ SECRET_KEY: 'x'.repeat(32) }, { roles: [] });

  type Values = Record<string, unknown>;
  /** What each stored layer holds beside the fields that it must have. */
  type Held = Readonly<Record<Exclude<LayerName, 'env'>, Values>>;
  const sourcesOf = (
    layers: Held,
    ofPlatform: Bounds | null = null,
    ofTenant: Bounds | null = null,
  ): Sources => ({
    tenantId: 't',
    serviceType: 'cloud_run',
    environment: environmentDefaults(settings),
    tenant: {
      revision: 1,
      risk: {
        ...written,
        document: {
          global_settings: riskDefaults(settings),
          // An override may hold anything, which its type does not say.
          service_overrides: { cloud_run: layers.tenant_risk as Record<string, number> },
        },
      },
      agent: { ...written, document: { ...layers.agent, agent_type: 'x' } },
      service: {
        ...written,
        document: { ...layers.service_instance, service_id: 's', service_type: 'cloud_run' },
      },
      bounds: ofTenant && { ...written, document: ofTenant },
    },
    platform: {
      revision: 1,
      bounds: ofPlatform && { ...written, document: ofPlatform },
      entries: Object.entries(layers.global).map(([config_key, config_value]) => ({
        ...written,
        document: {
          config_key,
          config_value,
          is_public: true,
          requires_restart: false,
          ...written,
        },
      })),
      service_types: {
        cloud_run: {
          ...written,
          document: {
            service_type: 'cloud_run',
            configuration_name: 'default',
            default_settings: layers.service_type,
            scaling_limits: {},
            monitoring_defaults: {},
            is_active: true,
          },
        },
      },
    },
  });

  const values = fc.dictionary(
    fc.oneof(name, fc.constantFrom('max_cost_impact_auto', 'default_region', 'min_instances')),
    fc.jsonValue(),
    { maxKeys: 6, noNullPrototype: true },
  );
  const held: fc.Arbitrary<Held> = fc.record({
    service_instance: values,
    agent: values,
    tenant_risk: values,
    service_type: values,
    global: fc.dictionary(name, fc.jsonValue(), { maxKeys: 4 }),
  });

  test('names for every key the layer whose value it is, and what it shadows in order', () => {
    fc.assert(
      fc.property(held, (layers) => {
        const sources = sourcesOf(layers);
        const { explain, values: explained, enforced } = explainValues(sources);
        const { values: merged } = effectiveValues(sources);
        expect(explained).toEqual(merged);
        const keys = new Set([...Object.keys(merged), ...enforced]);
        expect(Object.keys(explain).sort()).toEqual([...keys].sort());
        for (const [key, { layer: decides, shadowed, value }] of Object.entries(explain)) {
          expect(value).toEqual(merged[key]);
          // A value of the wrong type gives way to one below it.
          if (enforced.includes(key)) continue;
          const found = [decides, ...shadowed.map(({ layer }) => layer)];
          const positions = found.map((each) => layerNames.findIndex((name) => name === each));
          expect(positions).toEqual([...positions].sort((a, b) => a - b));
          if (decides === 'env') expect(key in layers.global).toBe(false);
        }
      }),
      runs(60),
    );
  });

  test('values within bounds are those of the layers one by one, an override above the limits that it overrides', () => {
    const key = fc.constantFrom('a', 'b', 'max_cost_impact_auto', 'min_instances');
    const small = fc.constantFrom<unknown[]>(null, 1, 4, 20, 30, 2.5, 'x', true);
    const some = fc
      .array(fc.tuple(key, small), { maxLength: 4 })
      .map((entries) => Object.fromEntries(entries));
    const bounds: fc.Arbitrary<Bounds> = fc.dictionary(
      key,
      fc.oneof(
        fc.record({ maximum: fc.constantFrom(3, 20) }),
        fc.record({ enum: fc.constant<unknown[]>([1, 4, 15]) }),
        fc.record({ const: fc.constantFrom(1, 4) }),
      ),
      { maxKeys: 3, noNullPrototype: true },
    );
    const stack: fc.Arbitrary<Held> = fc.record({
      service_instance: some,
      agent: some,
      tenant_risk: some,
      service_type: some,
      global: some,
    });
    fc.assert(
      fc.property(stack, bounds, bounds, (layers, ofPlatform, ofTenant) => {
        const sources = sourcesOf(layers, ofPlatform, ofTenant);
        const { values: found, explain, enforced } = explainValues(sources);
        const sets: BoundSet[] = [
          { by: 'platform', bounds: ofPlatform, revision: 1 },
          { by: 'tenant', bounds: ofTenant, revision: 1 },
        ];
        const wanted = applyBounds(
          [
            environmentDefaults(settings),
            layers.global,
            layers.service_type,
            { scaling_limits: {}, monitoring_defaults: {} },
            riskDefaults(settings),
            layers.tenant_risk,
            layers.agent,
            layers.service_instance,
          ],
          sets,
          'cloud_run',
        );
        expect(found).toEqual(wanted.values);
        for (const each of enforced) {
          const { layer: from, enforced: acted } = explain[each]!;
          if (from === 'bounds') expect(['platform', 'tenant']).toContain(acted!.by);
        }
      }),
      runs(60),
    );
  });

  test('names the document by its cache key', () => {
    const sources = sourcesOf({
      service_instance: { a: 1 },
      agent: { b: 1 },
      tenant_risk: { c: 1 },
      service_type: { d: 1 },
      global: { e: 1 },
    });
    const explained = Object.values(explainValues(sources).explain);
    const expected: Readonly<Record<LayerName, string>> = {
      service_instance: 'service_instance_t_s',
      agent: 'agent_config_t_x',
      tenant_risk: 'risk_config_t',
      service_type: 'service_type_cloud_run_default',
      global: 'global_e',
      env: 'env',
    };
    const found = explained.map(({ layer, source }) => [layer, source] as const);
    expect(Object.fromEntries(found)).toEqual(expected);
  });
});
