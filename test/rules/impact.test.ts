/**
 * What a change means for one tenant: the edges that random tenants do not meet.
 * test/services/plan.test.ts has those.
 */
import { expect, test } from '@jest/globals';
import {
  emptyCounts,
  Impacts,
  ImpactsBySide,
  type Compared,
} from '../../services/config-resolver/rules/impact.ts';
import type { Bounds } from '../../shared/contracts/bounds.ts';
import type { PlatformLayers, TenantSaid } from '../../shared/contracts/layers.ts';

const emptyTenant: TenantSaid = {
  tenant_id: '3f9d1c52-7a41-4f0e-9b6c-0d5e8a1b2c3d',
  tenant_name: 'Edge',
  changed_at: null,
  global_settings: null,
  service_overrides: {},
  bounds: null,
  agents: [],
  services: [],
};
const platform = (bounds: Bounds | null): PlatformLayers => ({
  entries: [],
  service_types: {},
  bounds: bounds && { document: bounds, revision: 1 },
});

function impactOf(
  said: Partial<TenantSaid>,
  compared: Pick<Compared, 'before' | 'after'> & Partial<Compared>,
) {
  const keys = [
    ...Object.keys(compared.after.bounds?.document ?? {}),
    ...compared.after.entries.map(({ document }) => document.config_key),
  ];
  const impacts = new Impacts({ keys, environment: {}, ...compared });
  const counts = emptyCounts([]);
  const items = [...impacts.ofTenant({ ...emptyTenant, ...said }, counts)].flat();
  return { items: items.map(({ tenant_id: _id, tenant_name: _name, ...item }) => item), counts };
}

test('a key named __proto__ is one like any other', () => {
  const bounds = Object.fromEntries([['__proto__', { const: 1 }]]);
  const { items, counts } = impactOf({}, { before: platform(null), after: platform(bounds) });
  expect(items).toEqual([{ context: {}, key: '__proto__', after: 1, decided_by: 'bounds' }]);
  expect(Object.entries(counts.by_key)).toEqual([['__proto__', { changed: 1, shielded_by: {} }]]);
  expect(Object.keys(Object.prototype)).toEqual([]);
  expect('changed' in {}).toBe(false);
});

test('a value of a service type that is not active is named, and changes nothing', () => {
  const { items, counts } = impactOf(
    { service_overrides: { gone: { max_resource_scaling: 9 } } },
    { before: platform(null), after: platform({ max_resource_scaling: { maximum: 4 } }) },
  );
  expect(items).toEqual([
    {
      context: { service_type: 'gone' },
      key: 'max_resource_scaling',
      before: 9,
      after: 9,
      decided_by: 'tenant_risk',
      problem: expect.stringMatching(/maximum 4$/),
    },
  ]);
  expect(counts.tenants).toEqual({ total: 1, changed: 0, shielded: 0, invalid: 1, clamped: 0 });
});

test("a tenant's bound that newly contradicts the platform's is a problem, and what it gave changes", () => {
  const { items, counts } = impactOf(
    { bounds: { max_resource_scaling: { minimum: 6 } } },
    {
      before: platform(null),
      after: platform({ max_resource_scaling: { maximum: 4 } }),
      environment: { max_resource_scaling: 3 },
    },
  );
  expect(items).toEqual([
    {
      context: {},
      key: 'max_resource_scaling',
      before: 6,
      after: 3,
      decided_by: 'env',
      problem: expect.stringMatching(/yield to that of the platform: maximum 4$/),
    },
  ]);
  expect(counts.tenants).toMatchObject({ changed: 1, invalid: 1, clamped: 0 });
});

test('an entry that a bound overrules shields: nothing changes, and the bound is named', () => {
  const entry = (config_value: unknown) => [{ document: { config_key: 'band', config_value } }];
  const bounds = { band: { const: 'x' } };
  const { items, counts } = impactOf(
    {},
    {
      before: { ...platform(bounds), entries: entry('a') },
      after: { ...platform(bounds), entries: entry('b') },
    },
  );
  expect(items).toEqual([]);
  expect(counts).toEqual({
    tenants: { total: 1, changed: 0, shielded: 1, invalid: 0, clamped: 0 },
    by_key: { band: { changed: 0, shielded_by: { bounds: 1 } } },
  });
});

test('impacts of sides are remembered for a few, and made again for others', () => {
  const rollouts = Array.from({ length: 10 }, (_, index) => ({
    id: `rollout-${index}`,
    stage: 0,
    salt: `salt-${index}`,
    percent: 50,
    tenants: [],
    revision: 1,
    updated_by: 'u',
    updated_at: '2030-01-01T00:00:00.000Z',
    items: [],
  }));
  const layers = { ...platform(null), rollouts };
  const impacts = new ImpactsBySide({
    keys: ['a'],
    environment: {},
    before: layers,
    after: layers,
  });
  const id = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
  const first = impacts.of(id(0));
  expect(impacts.of(id(0))).toBe(first);
  const made = new Set(Array.from({ length: 400 }, (_, n) => impacts.of(id(n + 1))));
  expect(made.size).toBeGreaterThan(100);
  expect(impacts.of(id(0))).not.toBe(first);
});
