/** What other budgets and freezes mean for a tenant, by its spending and what of it is live. */
import { describe, expect, test } from '@jest/globals';
import {
  budgetEffect,
  changedRules,
  freezeEffect,
  leastOfInterest,
  type Live,
} from '../../services/config-resolver/rules/impact-over-time.ts';
import { decimalText, millionthsOf } from '../../shared/budgets/decimal.ts';
import type { Budget } from '../../shared/contracts/budgets.ts';
import type { Freeze } from '../../shared/contracts/freezes.ts';

const at = Date.parse('2026-11-26T12:00:00Z');
const budgetOf = (amount: string, more: Partial<Budget> = {}): Budget => ({
  amount,
  currency: 'EUR',
  per: 'day',
  ...more,
});
const spent = (spentText: string, held = '0') => ({
  spent: millionthsOf(spentText),
  held: millionthsOf(held),
});
const live = (asked: Partial<Live['asked']> = {}, touched: Live['touched'] = {}): Live => ({
  asked: {
    tenant_id: '3f9d1c52-7a41-4f0e-9b6c-0d5e8a1b2c3d',
    action: 'scale',
    risk_level: 'low',
    is_rollback: false,
    running: 0,
    waiting: 1,
    ...asked,
  },
  touched,
});

describe('a budget', () => {
  test.each<
    [
      string,
      {
        readonly before?: Budget;
        readonly after?: Budget;
        readonly balance?: ReturnType<typeof spent>;
        readonly live?: Live[];
      },
      object | undefined,
    ]
  >([
    [
      'that is lowered below what is spent and held is exhausted',
      { before: budgetOf('100'), after: budgetOf('50'), balance: spent('30', '20') },
      { effect: 'exhausted', spent: '30', held: '20', remaining: '0', waiting: 0 },
    ],
    [
      'that was exhausted before is no news',
      { before: budgetOf('40'), after: budgetOf('50'), balance: spent('60') },
      undefined,
    ],
    [
      'that is raised, removed, or only warns from now on releases what was exhausted',
      { before: budgetOf('40'), after: budgetOf('100'), balance: spent('60') },
      { effect: 'released', remaining: '40' },
    ],
    ['that is removed', { before: budgetOf('40'), balance: spent('60') }, { effect: 'released' }],
    [
      'that only warns from now on',
      { before: budgetOf('40'), after: budgetOf('40', { mode: 'warn' }), balance: spent('60') },
      { effect: 'released' },
    ],
    [
      'that only warns exhausts nothing',
      { after: budgetOf('10', { mode: 'warn' }), balance: spent('60') },
      undefined,
    ],
    [
      'that comes to its share warns',
      { before: budgetOf('100'), after: budgetOf('100', { warn_at: 0.6 }), balance: spent('60') },
      { effect: 'warned', remaining: '40' },
    ],
    [
      'that is new refuses what waits and would cost more',
      {
        after: budgetOf('10', { match: { project_ids: ['shop'] } }),
        live: [
          live({ cost_impact: 11, waiting: 2 }, { project_id: 'shop' }),
          live({ cost_impact: 11, waiting: 4 }, { project_id: 'other' }),
          live({ cost_impact: 10, waiting: 8 }, { project_id: 'shop' }),
        ],
      },
      { effect: 'refuses', spent: '0', remaining: '10', waiting: 2 },
    ],
    [
      'that asks people, or has rollbacks for nothing, lets them',
      {
        after: budgetOf('10', { over: 'approval_required' }),
        live: [live({ cost_impact: 11 })],
      },
      undefined,
    ],
    [
      'of which a rollback is free',
      {
        after: budgetOf('10', { rollbacks: 'free' }),
        live: [live({ cost_impact: 11, is_rollback: true })],
      },
      undefined,
    ],
    [
      'of actions counts one for each',
      {
        before: { amount: '9', counts: 'actions', per: 'day' },
        after: { amount: '2', counts: 'actions', per: 'day' },
        balance: spent('2'),
        live: [live({ waiting: 3 })],
      },
      { effect: 'exhausted', waiting: 3 },
    ],
  ])('%s', (_name, { before, after, balance, live: waiting = [] }, expected) => {
    const change = { name: 'b', ...(before && { before }), ...(after && { after }) };
    const effect = budgetEffect(change, { before: balance, after: balance }, { live: waiting, at });
    if (expected === undefined) expect(effect).toBeUndefined();
    else expect(effect).toMatchObject({ limit: 'budget', name: 'b', ...expected });
  });

  test('is looked at from its share of the amount on', () => {
    expect(decimalText(leastOfInterest(budgetOf('50', { warn_at: 0.8 })))).toBe('40');
    expect(decimalText(leastOfInterest(budgetOf('50')))).toBe('50');
  });
});

describe('a freeze', () => {
  const dated = (from: string, until: string, more: Partial<Freeze> = {}): Freeze => ({
    during: [{ from, until, timezone: 'UTC' }],
    ...more,
  });
  const now = dated('2026-11-26T10:00', '2026-11-26T18:00');
  const tomorrow = dated('2026-11-27T10:00', '2026-11-27T18:00');
  const running = live({ running: 2, waiting: 3 });

  test.each<[string, { before?: Freeze; after?: Freeze }, Live[], object | undefined]>([
    [
      'that holds now',
      { after: now },
      [running],
      {
        effect: 'frozen',
        from: '2026-11-26T12:00:00.000Z',
        until: '2026-11-26T18:00:00.000Z',
        running: 2,
        waiting: 3,
      },
    ],
    [
      'that comes, in its next occurrence',
      { after: tomorrow },
      [running],
      { effect: 'frozen', from: '2026-11-27T10:00:00.000Z', until: '2026-11-27T18:00:00.000Z' },
    ],
    [
      'that lets automation act only within its windows',
      { after: { ...tomorrow, only_within: true } },
      [running],
      { effect: 'frozen', from: '2026-11-26T12:00:00.000Z', until: '2026-11-27T10:00:00.000Z' },
    ],
    ['that held already', { before: now, after: { ...now, reason: 'r' } }, [running], undefined],
    [
      'that is over',
      { after: dated('2026-11-20T10:00', '2026-11-21T10:00') },
      [running],
      undefined,
    ],
    ['that only warns', { after: { ...now, mode: 'warn' } }, [running], undefined],
    [
      'that is about others',
      { after: { ...now, match: { actions: ['x'] } } },
      [running],
      undefined,
    ],
    ['without anything live', { after: now }, [], undefined],
    [
      'that is removed releases what it held',
      { before: now },
      [running],
      { effect: 'released', waiting: 3 },
    ],
    ['that is removed before it began', { before: tomorrow }, [running], undefined],
    [
      'that is of an environment counts what acts there',
      { after: { ...now, match: { environments: ['production'] } } },
      [running, live({ waiting: 5 }, { environment: 'production' })],
      { effect: 'frozen', running: 0, waiting: 5 },
    ],
    [
      'that lets rollbacks pass',
      { after: { ...now, allow: { rollbacks: true } } },
      [live({ is_rollback: true })],
      undefined,
    ],
  ])('%s', (_name, change, all, expected) => {
    const effect = freezeEffect({ name: 'f', ...change }, { live: all, at });
    if (expected === undefined) expect(effect).toBeUndefined();
    else expect(effect).toMatchObject({ limit: 'freeze', name: 'f', ...expected });
  });
});

test('only what differs is compared, also under names of objects themselves', () => {
  const [one, other] = [budgetOf('1'), budgetOf('2')];
  expect(changedRules({ a: one, b: one, toString: one }, { a: one, b: other, c: one })).toEqual([
    { name: 'b', before: one, after: other },
    { name: 'toString', before: one },
    { name: 'c', after: one },
  ]);
  expect(changedRules(null, null)).toEqual([]);
});
