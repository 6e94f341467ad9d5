/** What change policies ask for: which writes they guard, what tightens, what loosens a policy. */
import { describe, expect, test } from '@jest/globals';
import { proposedBy } from '../../shared/change-sets/proposing.ts';
import { digestOf, groupsOfAll } from '../../shared/change-sets/rules.ts';
import type { Bounds } from '../../shared/contracts/bounds.ts';
import { limitDefaults } from '../../shared/contracts/risk.ts';
import {
  requiredFor,
  type GuardedWrite,
  type Policy,
} from '../../shared/documents/change-policy.ts';
import {
  tightensBounds,
  tightensBudgets,
  tightensFreezes,
  tightensRisk,
} from '../../shared/documents/tightening.ts';
import { diff } from '../../shared/schema/diff.ts';

const write = (
  configType: string,
  before: unknown,
  after: unknown,
  more: Partial<GuardedWrite> = {},
): GuardedWrite => ({
  configType,
  resourceId: 'id',
  before,
  after,
  changes: diff(before ?? undefined, after ?? undefined),
  tightens: false,
  ...more,
});

test('a proposal keeps the conditions of the write', () => {
  const item = { action: 'put', path: '/config/bounds', body: {} };
  const refused = { path: '/config/changesets', body: { title: 't', reason: 'r', items: [item] } };
  for (const condition of [{ if_match: '"3"' }, { if_none_match: '*' }] as const)
    expect(proposedBy(condition, refused, 'r').items).toEqual([{ ...item, ...condition }]);
});

test('one change set has the groups of one policy, since with two it could never be applied', () => {
  expect(groupsOfAll([[], ['sre'], [], ['sre']])).toEqual(['sre']);
  expect(groupsOfAll([[], []])).toEqual([]);
  expect(() => groupsOfAll([[], ['sre'], ['finance', 'risk']])).toThrow(
    expect.objectContaining({
      data: {
        errors: [
          {
            path: '/items/2',
            message: 'is approved by finance, risk, and item 1 by sre: propose it by itself',
          },
        ],
      },
    }),
  );
});

describe('what a policy guards', () => {
  const project = write('project_config', { a: { b: 1 } }, { a: { b: 2 } });
  test.each<[what: string, policy: Policy, write: GuardedWrite, isGuarded: boolean]>([
    ['everything', {}, project, true],
    ['its kind', { config_types: ['project_config'] }, project, true],
    ['another kind', { config_types: ['agent_config'] }, project, false],
    ['a key in the path', { keys: ['b'] }, project, true],
    ['another key', { keys: ['c'] }, project, false],
    ['a key that comes inside', { keys: ['c'] }, write('x', {}, { a: [{ c: 1 }] }), true],
    ['a key that goes inside', { keys: ['c'] }, write('x', { a: { c: 1 } }, null), true],
    ['an index is no key', { keys: ['0'] }, write('x', {}, { a: ['c'] }), false],
    ['a key as the document', { keys: ['id'] }, write('x', null, { v: 1 }), true],
    ['an escaped key', { keys: ['a/b'] }, write('x', { 'a/b': 1 }, { 'a/b': 2 }), true],
    ['a key or a kind', { keys: ['c'], config_types: ['project_config'] }, project, true],
    ['a write that changes nothing', {}, write('x', { a: 1 }, { a: 1 }), true],
    ['what tightens', {}, { ...project, tightens: true }, true],
    ['what tightens, free', { tightening: 'free' }, { ...project, tightens: true }, false],
  ])('%s', (_what, policy, written, isGuarded) => {
    expect(requiredFor([policy], written) !== null).toBe(isGuarded);
  });

  test('the strictest of two counts', () => {
    expect(requiredFor([{ required: 2 }, { groups: ['sec'] }], project)).toEqual({
      required: 2,
      groups: ['sec'],
    });
  });
});

describe('a policy that becomes', () => {
  const strict: Policy = {
    config_types: ['agent_config'],
    keys: ['k'],
    required: 2,
    groups: ['a', 'z'],
  };
  test.each<[what: string, next: object | null, isLooser: boolean]>([
    ['the same in another order', { ...strict, groups: ['z', 'a'] }, false],
    ['of more people', { ...strict, required: 3 }, false],
    ['of more kinds', { ...strict, config_types: ['agent_config', 'project_config'] }, false],
    ['of all documents', { required: 2, groups: ['a', 'z'] }, false],
    ['nothing', null, true],
    ['of fewer people', { ...strict, required: 1 }, true],
    ['of no kind', { keys: ['k'], required: 2, groups: ['a', 'z'] }, true],
    ['of other keys', { ...strict, keys: ['l'] }, true],
    ['of other groups', { ...strict, groups: ['b'] }, true],
    ['of any group', { config_types: ['agent_config'], keys: ['k'], required: 2 }, true],
    ['free to tighten', { ...strict, tightening: 'free' }, true],
  ])('%s', (_what, next, isLooser) => {
    for (const [before, after, inForce] of [
      [strict, next, strict],
      [{ tenants: strict }, next && { tenants: next }, {}],
      [{ platform: strict }, next && { platform: next }, { keys: ['none'] }],
    ] as const) {
      const change = write('change_policy_config', before, after);
      const asked = requiredFor([inForce as Policy], change);
      expect([before, asked !== null]).toEqual([before, isLooser]);
    }
  });
});

describe('what tightens', () => {
  const risk = { global_settings: { ...limitDefaults }, service_overrides: {} };
  const limits = (changed: object) => ({
    ...risk,
    global_settings: { ...risk.global_settings, ...changed },
  });
  test.each<[change: object, tightens: boolean]>([
    [{ max_cost_impact_auto: 1 }, true],
    [{ max_cost_impact_auto: 16 }, false],
    [{ automation_enabled: false }, true],
    [{ business_hours_only: true }, true],
    [{ approval_timeout_minutes: 1 }, false],
    [{ max_cost_impact_auto: 1, max_resource_scaling: 4 }, false],
  ])('limits: %j', (change, tightens) => {
    expect(tightensRisk(risk, limits(change))).toBe(tightens);
  });

  test.each<[before: object, after: object, tightens: boolean]>([
    [{ max_cost_impact_auto: 5 }, { max_cost_impact_auto: 4 }, true],
    // Where there is none the limit of all holds, which is 15.
    [{}, { max_cost_impact_auto: 14 }, true],
    [{}, { automation_enabled: false }, true],
    [{}, { max_cost_impact_auto: 15 }, false],
    [{}, { max_cost_impact_auto: 16 }, false],
    [{}, { max_cost_impact_auto: 14, unknown: 1 }, false],
    [{ max_cost_impact_auto: 16 }, {}, true],
    [{ max_cost_impact_auto: 5 }, {}, false],
    [{ max_cost_impact_auto: 5 }, { max_cost_impact_auto: null }, false],
    // A switch that is no risk limit, and keeps automation to the windows of an instance.
    [{ maintenance_windows_only: true }, {}, false],
    [{ maintenance_windows_only: true }, { maintenance_windows_only: false }, false],
  ])('overrides: %j to %j', (before, after, tightens) => {
    const overriding = (own: object) => ({ ...risk, service_overrides: { cloud_run: own } });
    expect(tightensRisk(overriding(before), overriding(after))).toBe(tightens);
  });

  test('overrides: also of another service type, and of limits that are lowered too', () => {
    const cheap = { ...risk, service_overrides: { cloud_run: { max_cost_impact_auto: 5 } } };
    expect(tightensRisk(risk, cheap)).toBe(true);
    expect(tightensRisk(cheap, risk)).toBe(false);
    const all = { ...limits({ max_cost_impact_auto: 2 }), service_overrides: {} };
    expect(tightensRisk(cheap, all)).toBe(true);
    expect(tightensRisk(all, { ...all, service_overrides: cheap.service_overrides })).toBe(false);
  });

  test.each<[what: string, added: Bounds, tightens: boolean]>([
    ['a maximum', { max_cost_impact_auto: { maximum: 5 } }, true],
    ['off', { automation_enabled: { const: false } }, true],
    [
      'off for a service type',
      { automation_enabled: { const: false, service_types: ['cloud_run'] } },
      true,
    ],
    ['on', { automation_enabled: { const: true } }, false],
    ['a minimum', { max_cost_impact_auto: { minimum: 500 } }, false],
    ['a maximum that warns', { max_cost_impact_auto: { maximum: 5, mode: 'warn' } }, false],
    [
      'a maximum that sets the value too',
      { max_cost_impact_auto: { maximum: 5, const: 9 } },
      false,
    ],
    ['of a key that no one knows', { other: { maximum: 5 } }, false],
    ['of a name of every object', { constructor: { maximum: 5 } }, false],
  ])('bounds: %s', (_what, added, tightens) => {
    expect(tightensBounds({}, added)).toBe(tightens);
    expect(tightensBounds(added, {})).toBe(false);
  });

  test('freezes and budgets are added, budgets lowered; nothing goes', () => {
    const freezes = { holidays: { during: [{ dates: ['12-25'], timezone: 'UTC' }] } };
    expect(tightensFreezes(null, freezes)).toBe(true);
    expect(tightensFreezes(freezes, {})).toBe(false);
    expect(tightensFreezes(freezes, { holidays: { ...freezes.holidays, mode: 'warn' } })).toBe(
      false,
    );
    const budget = (amount: string, per: 'day' | 'week' = 'day') => ({ daily: { amount, per } });
    expect(tightensBudgets({}, budget('5.00'))).toBe(true);
    expect(tightensBudgets(budget('5.00'), budget('4.99'))).toBe(true);
    expect(tightensBudgets(budget('5.00'), budget('5.01'))).toBe(false);
    expect(tightensBudgets(budget('5.00'), budget('4.00', 'week'))).toBe(false);
    expect(tightensBudgets(budget('5.00'), {})).toBe(false);
  });
});

test('a digest is of everything that is written, on which base, why and when', () => {
  const item = {
    action: 'put',
    path: '/config/bounds',
    base: 1,
    before: {},
    after: { a: 1 },
    changes: [],
  } as const;
  const content = { title: 't', reason: 'r', apply: 'manual', items: [item] } as const;
  const digests = [
    digestOf(null, content),
    digestOf('tenant', content),
    digestOf(null, { ...content, title: 'u' }),
    digestOf(null, { ...content, reason: 's' }),
    digestOf(null, { ...content, apply: 'on_approval' }),
    digestOf(null, { ...content, items: [{ ...item, base: 2 }] }),
    digestOf(null, { ...content, items: [{ ...item, after: null }] }),
    digestOf(null, { ...content, items: [item, item] }),
  ];
  expect(new Set(digests).size).toBe(digests.length);
});
