/** Replays without a server: what budgets would have had, where an answer stops, and how it continues. */
import { describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { decide } from '../../services/config-resolver/rules/decide.ts';
import {
  nothingReplayed,
  Replaying,
  type Then,
} from '../../services/config-resolver/rules/replay.ts';
import type { BudgetInForce } from '../../shared/contracts/budgets.ts';
import type { Intent } from '../../shared/contracts/decide.ts';
import type { Replayable } from '../../shared/contracts/decisions.ts';
import { limitDefaults } from '../../shared/contracts/risk.ts';

const tenant = randomUUID();
const values = {
  ...limitDefaults,
  business_hours: { days: ['mon'], start: '00:00', end: '00:00', timezone: 'UTC' },
};
const budget = (amount: string, rule: object = {}): BudgetInForce => ({
  by: 'tenant',
  name: 'all',
  rule: { amount, currency: 'EUR', per: 'month', ...rule },
  revision: 1,
});

function then(limits: object, budgets: readonly BudgetInForce[] = []): Exclude<Then, string> {
  const explained = Object.keys(values).map((key) => [
    key,
    { layer: 'tenant_risk', source: 'risk', revision: 1, shadowed: [] },
  ]);
  return {
    tenant_id: tenant,
    service_type: null,
    values: { ...values, ...limits },
    explain: Object.fromEntries(explained),
    over_time: { budgets: [...budgets], freezes: [], project_id: null },
    revision: { tenant: 1, platform: 1 },
  };
}

let minutes = 0;
/** An automation that started, with what its budget had spent then. */
function automation(spent: number, cost: number, over: Partial<Replayable> = {}): Replayable {
  minutes += 1;
  const at = new Date(Date.UTC(2026, 10, 2, 10, minutes)).toISOString();
  const intent: Intent = { action: 'scale', risk_level: 'low', cost_impact: cost };
  return {
    id: randomUUID(),
    source: 'automation',
    decided_at: at,
    at,
    judged_at: at,
    intent,
    is_proven: false,
    balances: [{ by: 'tenant', name: 'all', spent: String(spent), held: '0' }],
    decision: 'allow',
    reasons: [],
    tenant: 1,
    platform: 1,
    has_started: true,
    actual_cost: null,
    is_regranted: false,
    ...over,
  };
}

const replayed = (before: Then, after: Then, decisions: readonly Replayable[]) => {
  const replaying = new Replaying(nothingReplayed());
  const items = decisions.flatMap((each) => replaying.look(each, before, after) ?? []);
  return { items, replaying, ...replaying.totals() };
};

describe('budgets', () => {
  test('have what they had then, less what would not have started, in order', () => {
    const before = then({}, [budget('100')]);
    const after = then({}, [budget('30')]);
    // Of 30, the first two fit; without the third the fourth does not, and the fifth does.
    const asked = [automation(0, 10), automation(10, 15), automation(25, 12), automation(37, 8)];
    const cheap = automation(45, 5);
    const { items, changed, baseline_differs, cost } = replayed(before, after, [...asked, cheap]);
    expect(baseline_differs).toBe(0);
    expect(items.map(({ id }) => id)).toEqual([asked[2]!.id, asked[3]!.id]);
    expect(changed).toEqual({ 'allow→deny': 2 });
    expect(cost).toEqual({ before: '50', after: '30' });
  });

  test('count what it really cost', () => {
    const asked = [automation(0, 10, { actual_cost: 25 }), automation(25, 6)];
    const { changed } = replayed(then({}, [budget('100')]), then({}, [budget('30')]), asked);
    expect(changed).toEqual({ 'allow→deny': 1 });
  });

  test('that there were not begin empty, and the answer says so', () => {
    const asked = [automation(0, 10), automation(0, 10), automation(0, 10)].map((each) => ({
      ...each,
      balances: [],
    }));
    const { changed, replaying } = replayed(then({}), then({}, [budget('25')]), asked);
    expect(changed).toEqual({ 'allow→deny': 1 });
    expect(replaying.hasNewBudgets).toBe(true);
  });

  test('continue where an answer ended', () => {
    const [before, after] = [then({}, [budget('100')]), then({}, [budget('30')])];
    const asked = [automation(0, 10), automation(10, 15), automation(25, 12), automation(37, 8)];
    const first = new Replaying(nothingReplayed());
    for (const each of asked.slice(0, 3)) first.look(each, before, after);
    const second = new Replaying(first.totals());
    second.budgets.restore(structuredClone(first.budgets.save()!));
    second.look(asked[3]!, before, after);
    const whole = replayed(before, after, asked);
    expect(second.totals()).toEqual(whole.replaying.totals());
  });

  test('of which an earlier release kept nothing are not known', () => {
    const before = then({}, [budget('100')]);
    const { total, unknown } = replayed(before, before, [automation(0, 1, { balances: null })]);
    expect([total, unknown]).toEqual([0, { balances_not_kept: 1 }]);
  });
});

describe('the baseline', () => {
  const rule = { rule: 'max_cost_impact_auto', limit: 5 };
  const recordedBy = (limits: object, over: Partial<Replayable> = {}): Replayable => {
    const asked = automation(0, 8, { source: 'decide', has_started: false, balances: [] });
    const { decision, reasons } = decide(then(limits), asked.intent, Date.parse(asked.at));
    return { ...asked, decision, reasons, ...over };
  };

  test('is what was recorded, or is counted', () => {
    const low = { max_cost_impact_auto: 5 };
    const same = replayed(then(low), then({}), [recordedBy(low)]);
    expect(same).toMatchObject({ baseline_differs: 0, changed: { 'approval_required→allow': 1 } });
    const other = replayed(then({}), then({}), [recordedBy(low)]);
    expect(other).toMatchObject({ baseline_differs: 1, same: 1 });
    expect(recordedBy(low).reasons[0]).toMatchObject(rule);
  });

  test('leaves out the slots, which no configuration knows', () => {
    const slots = { rule: 'too_many_automations', asked: 6, limit: 5 } as const;
    const by = { layer: 'tenant_risk', source: 'risk', revision: 1 } as const;
    const denied = recordedBy({}, { decision: 'deny', reasons: [{ ...slots, ...by }] });
    expect(replayed(then({}), then({}), [denied])).toMatchObject({ baseline_differs: 0, same: 1 });
  });

  test('of what is not known is counted by its reason, and not in the total', () => {
    const { total, unknown } = replayed('before_history', then({}), [recordedBy({})]);
    expect([total, unknown]).toEqual([0, { before_history: 1 }]);
    const regranted = recordedBy({}, { is_regranted: true });
    expect(replayed(then({}), then({}), [regranted]).unknown).toEqual({ decided_at_grant: 1 });
  });
});
