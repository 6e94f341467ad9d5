/** The table of rules, row by row, and random intents against a second implementation of it. */
import { describe, expect, test } from '@jest/globals';
import { decide } from '../../services/config-resolver/rules/decide.ts';
import type { Intent } from '../../shared/contracts/decide.ts';
import { riskLevels } from '../../shared/contracts/notifier.ts';
import { limitDefaults as defaults, type RiskLimits } from '../../shared/contracts/risk.ts';
import fc, { runs } from '../support/properties.ts';

const office = { days: ['mon'], start: '09:00', end: '17:00', timezone: 'UTC' };
const monday = Date.parse('2026-07-06T12:00:00Z');
const sunday = Date.parse('2026-07-05T12:00:00Z');
const opening = '2026-07-06T09:00:00.000Z';

function effective(limits: Partial<RiskLimits>, hours: unknown = office) {
  const values: Record<string, unknown> = { ...defaults, ...limits, business_hours: hours };
  const origins = Object.keys(values).map((key, index) => [
    key,
    {
      layer: 'tenant_risk' as const,
      source: `document of ${key}`,
      path: `/${key}`,
      revision: index,
      updated_by: null,
      updated_at: null,
      shadowed: [],
    },
  ]);
  return {
    tenant_id: 'tenant',
    service_type: null,
    values,
    explain: Object.fromEntries(origins),
    revision: { tenant: 7, platform: 3 },
  };
}

const plain: Intent = { action: 'scale', risk_level: 'low' };
const rulesOf = ({ reasons }: ReturnType<typeof decide>) => reasons.map(({ rule }) => rule);

describe('decide', () => {
  test.each<[string, Partial<RiskLimits>, Partial<Intent>, number, string, string[]]>([
    ['nothing applies', {}, {}, monday, 'allow', []],
    ['switched off', { automation_enabled: false }, {}, monday, 'deny', ['automation_enabled']],
    [
      'outside of hours',
      { business_hours_only: true },
      {},
      sunday,
      'deny',
      ['business_hours_only'],
    ],
    ['within hours', { business_hours_only: true }, {}, monday, 'allow', []],
    ['outside where no one minds', {}, {}, sunday, 'allow', []],
    ['scaled to the limit', {}, { resource_scaling: 3 }, monday, 'allow', []],
    ['scaled beyond it', {}, { resource_scaling: 3.01 }, monday, 'deny', ['max_resource_scaling']],
    ['a cost to the limit', {}, { cost_impact: 15 }, monday, 'allow', []],
    [
      'a cost above it',
      {},
      { cost_impact: 15.01 },
      monday,
      'approval_required',
      ['max_cost_impact_auto'],
    ],
    [
      'a cost to what people may approve',
      {},
      { cost_impact: 50 },
      monday,
      'approval_required',
      ['max_cost_impact_auto'],
    ],
    [
      'a cost that no one may approve',
      {},
      { cost_impact: 50.01 },
      monday,
      'deny',
      ['max_cost_impact_approval', 'max_cost_impact_auto'],
    ],
    ['medium risk', {}, { risk_level: 'medium' }, monday, 'allow', []],
    [
      'high risk',
      {},
      { risk_level: 'high' },
      monday,
      'approval_required',
      ['require_approval_for_high_risk'],
    ],
    [
      'critical risk',
      {},
      { risk_level: 'critical' },
      monday,
      'approval_required',
      ['require_approval_for_high_risk'],
    ],
    [
      'high risk where no one minds',
      { require_approval_for_high_risk: false },
      { risk_level: 'high' },
      monday,
      'allow',
      [],
    ],
    [
      'a rollback of high risk and cost',
      {},
      { is_rollback: true, risk_level: 'high', cost_impact: 20 },
      monday,
      'allow',
      ['auto_approve_rollbacks', 'require_approval_for_high_risk', 'max_cost_impact_auto'],
    ],
    [
      'a rollback that needs approval as others do',
      { auto_approve_rollbacks: false },
      { is_rollback: true, risk_level: 'high' },
      monday,
      'approval_required',
      ['require_approval_for_high_risk'],
    ],
    [
      'a rollback at any cost',
      {},
      { is_rollback: true, cost_impact: 51 },
      monday,
      'deny',
      ['max_cost_impact_approval', 'auto_approve_rollbacks', 'max_cost_impact_auto'],
    ],
    [
      'everything at once',
      { automation_enabled: false, business_hours_only: true },
      { is_rollback: true, risk_level: 'critical', cost_impact: 99, resource_scaling: 9 },
      sunday,
      'deny',
      [
        'automation_enabled',
        'business_hours_only',
        'max_resource_scaling',
        'max_cost_impact_approval',
        'auto_approve_rollbacks',
        'require_approval_for_high_risk',
        'max_cost_impact_auto',
      ],
    ],
  ])('%s', (_name, limits, intent, at, decision, rules) => {
    const decided = decide(effective(limits), { ...plain, ...intent }, at, true);
    expect([decided.decision, rulesOf(decided)]).toEqual([decision, rules]);
  });

  test('a reason says what was asked, which limit it meets, and who set that', () => {
    const { reasons, revision } = decide(effective({}), { ...plain, cost_impact: 20 }, monday);
    expect(reasons).toEqual([
      {
        rule: 'max_cost_impact_auto',
        limit: 15,
        asked: 20,
        layer: 'tenant_risk',
        source: 'document of max_cost_impact_auto',
        revision: 0,
      },
    ]);
    expect(revision).toEqual({ tenant: 7, platform: 3 });
  });

  test('says when hours open next where that decides', () => {
    const closed = { business_hours_only: true };
    expect(decide(effective(closed), plain, sunday).retry_at).toBe(opening);
    const off = { ...closed, automation_enabled: false };
    expect(decide(effective(off), plain, sunday)).not.toHaveProperty('retry_at');
    expect(decide(effective(closed), plain, monday)).not.toHaveProperty('retry_at');
    const last = '9999-12-31T23:59:59.999Z';
    expect(decide(effective(closed), plain, Date.parse(last)).retry_at).toBe(last);
  });

  test('hours that are none never open', () => {
    for (const hours of [
      null,
      'mon-fri',
      { ...office, timezone: 'Mars/Base' },
      { ...office, days: [] },
    ]) {
      const decided = decide(effective({ business_hours_only: true }, hours), plain, monday);
      expect([decided.decision, decided.retry_at]).toEqual(['deny', undefined]);
    }
  });

  test('a limit without a value is as strict as it can be', () => {
    const none = {
      values: {},
      revision: { tenant: 1, platform: 1 },
      explain: effective({}).explain,
      tenant_id: 'tenant',
      service_type: null,
    };
    const everything = {
      cost_impact: 0,
      resource_scaling: 0,
      is_rollback: true,
      risk_level: 'high',
    };
    expect(rulesOf(decide(none, { ...plain, ...everything } as Intent, monday))).toEqual([
      'automation_enabled',
      'business_hours_only',
      'max_resource_scaling',
      'max_cost_impact_approval',
      'require_approval_for_high_risk',
      'max_cost_impact_auto',
    ]);
  });

  test('a limit that the node of a release before does not know decides nothing; without any nothing is decided', () => {
    const { values, explain, ...rest } = effective({});
    const { max_cost_impact_auto: _value, ...olderValues } = values;
    const { max_cost_impact_auto: _origin, ...olderExplain } = explain;
    const older = { ...rest, values: olderValues, explain: olderExplain };
    expect(decide(older, { ...plain, cost_impact: 20 }, monday).decision).toBe('allow');
    expect(() => decide({ ...rest, values, explain: {} }, plain, monday)).toThrow('no limit');
  });

  test('what says that it is a rollback is none until what it takes back is found', () => {
    const risky: Intent = { ...plain, risk_level: 'high', is_rollback: true };
    const named: Intent = { ...risky, takes_back: { revision: 3 } };
    const outcome = (intent: Intent, isProven?: boolean) => {
      const { decision, warnings } = decide(effective({}), intent, monday, isProven);
      return [decision, warnings?.map(({ path }) => path)];
    };
    expect(outcome(risky)).toEqual(['approval_required', ['/is_rollback']]);
    expect(outcome(named)).toEqual(['approval_required', ['/takes_back']]);
    expect(outcome(named, true)).toEqual(['allow', undefined]);
    expect(outcome({ ...named, is_rollback: false }, true)).toEqual([
      'approval_required',
      undefined,
    ]);
    expect(outcome({ ...plain, risk_level: 'high' })).toEqual(['approval_required', undefined]);
  });

  test('stale limits mark the decision', () => {
    expect(decide({ ...effective({}), stale: true }, plain, monday).stale).toBe(true);
    expect(decide(effective({}), plain, monday)).not.toHaveProperty('stale');
  });

  const amount = fc.constantFrom(0, 1, 2, 3, 15, 15.5, 50, 51, 1e6);
  const anyLimits = fc.record({
    max_cost_impact_auto: amount,
    max_cost_impact_approval: amount,
    max_resource_scaling: amount,
    require_approval_for_high_risk: fc.boolean(),
    auto_approve_rollbacks: fc.boolean(),
    automation_enabled: fc.boolean(),
    business_hours_only: fc.boolean(),
  });
  const anyIntent = fc.record(
    {
      action: fc.constant('scale'),
      risk_level: fc.constantFrom(...riskLevels),
      cost_impact: amount,
      resource_scaling: amount,
      is_rollback: fc.boolean(),
    },
    { requiredKeys: ['action', 'risk_level'] },
  );

  test('is what an oracle says of random cases', () => {
    fc.assert(
      fc.property(anyLimits, anyIntent, fc.constantFrom(monday, sunday), (limits, intent, at) => {
        const { decision } = decide(effective(limits), intent, at, true);
        return decision === oracle(limits, intent, at);
      }),
      runs(1000),
    );
  });
});

/**
 * As prose would say it, from the end: what allows, unless something asks for approval, unless
 * something denies.
 */
function oracle(limits: Partial<RiskLimits>, intent: Intent, at: number): string {
  const cost = intent.cost_impact ?? -1;
  const mustAsk =
    cost > limits.max_cost_impact_auto! ||
    (limits.require_approval_for_high_risk! && ['critical', 'high'].includes(intent.risk_level));
  const isFree = Boolean(intent.is_rollback) && limits.auto_approve_rollbacks!;
  const unlessDenied = mustAsk && !isFree ? 'approval_required' : 'allow';
  const denials = [
    cost > limits.max_cost_impact_approval!,
    (intent.resource_scaling ?? -1) > limits.max_resource_scaling!,
    limits.business_hours_only! && at === sunday,
    limits.automation_enabled === false,
  ];
  return denials.includes(true) ? 'deny' : unlessDenied;
}
