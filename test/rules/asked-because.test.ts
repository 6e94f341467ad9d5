/** Why an automation asks, as people read it. */
import { expect, test } from '@jest/globals';
import { rules } from '../../services/config-resolver/rules/decide.ts';
import { approvalOf, type StartBody } from '../../services/notifier/actions/asking.ts';
import { askedBecause, costText, currencyOf } from '../../services/notifier/rules/asked-because.ts';
import { intent, type DecisionReason } from '../../shared/contracts/decide.ts';
import { decidingLimits } from '../../shared/contracts/risk.ts';

const reason = (of: Partial<DecisionReason>): DecisionReason => ({
  rule: 'max_cost_impact_auto',
  asked: 30,
  limit: 20,
  layer: 'tenant_risk',
  source: 'risk_1',
  revision: 3,
  ...of,
});

test.each([
  [
    reason({}),
    'It costs 30 EUR; without an approval it may cost 20 EUR (max_cost_impact_auto, tenant_risk).',
  ],
  [
    reason({ limit: null }),
    'It costs 30 EUR; without an approval it may cost nothing (max_cost_impact_auto, tenant_risk).',
  ],
  [
    reason({ rule: 'require_approval_for_high_risk', asked: 'high', limit: true, layer: 'env' }),
    'Its risk is high, which needs an approval (require_approval_for_high_risk, env).',
  ],
  [
    reason({ rule: 'budget_exceeded', name: 'daily', limit: '500.00', spent: '480', held: '10' }),
    'It costs 30 EUR; of budget daily, 500.00 EUR, 480 EUR are spent and 10 EUR are held.',
  ],
  [
    reason({
      rule: 'rate_exceeded',
      name: 'hourly',
      asked: '1',
      limit: '3',
      spent: '2',
      held: '1',
    }),
    'Budget hourly allows 3 actions, of which 2 are taken and 1 are held.',
  ],
])('%j', (one, sentence) => {
  expect(askedBecause([one], 'EUR')).toEqual([sentence]);
});

const asking = decidingLimits.filter((rule) => rules[rule].decision === 'approval_required');

test.each(asking)('%s, by which people are asked, is a reason in words', (rule) => {
  expect(askedBecause([reason({ rule })], null)).toHaveLength(1);
});

test('what decides nothing here is left out, and many are counted', () => {
  expect(askedBecause([reason({ rule: 'auto_approve_rollbacks' })], null)).toEqual([]);
  const many = Array.from({ length: 9 }, (_each, index) => reason({ asked: index + 21 }));
  const said = askedBecause(many, null);
  expect(said).toHaveLength(6);
  expect(said[0]).toBe(
    'It costs 21; without an approval it may cost 20 (max_cost_impact_auto, tenant_risk).',
  );
  expect(said.at(-1)).toBe('And 4 more.');
});

test('the currency is that of a budget that counts money', () => {
  const budget = (rule: object) => ({ by: 'tenant', name: 'b', rule, revision: 1 }) as never;
  const actions = budget({ amount: '3', counts: 'actions', per: 'hour' });
  const money = budget({ amount: '3', currency: 'CHF', per: 'hour' });
  expect([currencyOf([]), currencyOf([actions]), currencyOf([actions, money])]).toEqual([
    null,
    null,
    'CHF',
  ]);
  expect([
    costText({ cost_impact: null }),
    costText({}),
    costText({ cost_impact: 0 }),
    costText({ cost_impact: 2.5, cost_currency: 'CHF' }),
  ]).toEqual(['', '', '0', '2.5 CHF']);
});

test('people are shown each field of an intent, but for a claim to be a rollback', () => {
  const fields = Object.keys(intent);
  const body = Object.fromEntries(fields.map((name) => [name, name])) as unknown as StartBody;
  const { resource, ...own } = approvalOf(body, true, []);
  const missing = fields.filter((name) => !Object.hasOwn({ ...own, ...Object(resource) }, name));
  expect(missing).toEqual(['is_rollback']);
});
