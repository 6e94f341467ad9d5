/** What a node remembers of budgets, and how old it may be when a decision is made by it. */
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { Balances } from '../../services/config-resolver/actions/balances.ts';
import type { Request } from '../../shared/contract-runtime/request.ts';
import type { Budget, BudgetInForce } from '../../shared/contracts/budgets.ts';
import { StrataError } from '../../shared/errors.ts';

const now = Date.UTC(2026, 10, 25, 23, 59, 58);
const midnight = Date.UTC(2026, 10, 26);
const budget = (rule: Partial<Budget> = {}): BudgetInForce => ({
  by: 'tenant',
  name: 'daily',
  rule: { amount: '100', currency: 'EUR', per: 'day', ...rule },
  revision: 3,
});
const daily = budget();

/** What the notifier would answer; an error while it is away. */
let answers: () => object;
let questions: number;
let balances: Balances;
const call = (async () => {
  questions += 1;
  return answers();
}) as Request['call'];
const spent =
  (amount: number, { rule } = daily) =>
  () => ({
    at: new Date().toISOString(),
    items: [
      {
        by: 'tenant',
        name: 'daily',
        rule,
        spent: `${amount}`,
        held: '0',
        remaining: `${100 - amount}`,
        resets_at: new Date(Date.now() < midnight ? midnight : midnight + 86_400_000).toISOString(),
      },
    ],
  });
const away = (): never => {
  throw new StrataError('service_unavailable');
};

const decide = async (inForce = daily, intent: object = {}) =>
  balances.weigh(
    {
      tenantId: 'acme',
      decided: { decision: 'allow', reasons: [], revision: { tenant: 3, platform: 1 } },
      budgets: [inForce],
      intent: { action: 'scale', risk_level: 'low', cost_impact: 10, ...intent },
      at: Date.now(),
    },
    call,
  );

beforeEach(() => {
  jest.useFakeTimers({ now, doNotFake: ['nextTick', 'queueMicrotask'] });
  balances = new Balances();
  questions = 0;
  answers = spent(50);
});
afterEach(() => {
  jest.useRealTimers();
});

test('decisions that meet share one question, and those within a second ask none', async () => {
  await Promise.all(Array.from({ length: 16 }, () => decide()));
  jest.advanceTimersByTime(999);
  answers = spent(95);
  const { decision, budgets } = await decide();
  expect([questions, decision, budgets?.[0]?.spent]).toEqual([1, 'allow', '50']);
  expect(Date.now() - Date.parse(budgets![0]!.as_of)).toBeLessThan(1000);
});

test('no balance is a second old', async () => {
  await decide();
  jest.advanceTimersByTime(1000);
  answers = spent(95);
  const { decision, budgets } = await decide();
  expect([questions, decision]).toEqual([2, 'deny']);
  expect(budgets?.[0]).toMatchObject({ spent: '95', as_of: new Date().toISOString() });
});

test('the second begins with the question, however long its answer takes', async () => {
  answers = () => {
    jest.advanceTimersByTime(600);
    return spent(50)();
  };
  await decide();
  jest.advanceTimersByTime(400);
  await decide();
  expect(questions).toBe(2);
});

test('a balance does not outlive its period', async () => {
  answers = spent(95);
  jest.setSystemTime(midnight - 1);
  expect((await decide()).decision).toBe('deny');
  answers = spent(0);
  jest.advanceTimersByTime(1);
  expect([(await decide()).decision, questions]).toEqual(['allow', 2]);
});

test('what another rule had left is not shown of the one that replaced it', async () => {
  await decide();
  const weekly = budget({ per: 'week' });
  answers = spent(95, weekly);
  expect([(await decide(weekly)).decision, questions]).toEqual(['deny', 2]);
});

test('a question that was asked before a change, or in another period, answers nothing after it', async () => {
  const weekly = budget({ per: 'week' });
  const before = decide();
  answers = spent(95, weekly);
  const after = decide(weekly);
  expect([(await before).decision, (await after).decision, questions]).toEqual([
    'allow',
    'deny',
    2,
  ]);
  jest.setSystemTime(midnight - 1);
  answers = spent(95);
  const late = decide();
  jest.setSystemTime(midnight);
  answers = spent(0);
  const early = decide();
  expect([(await late).decision, (await early).decision]).toEqual(['deny', 'allow']);
});

test('while the notifier is away the last balance is marked as stale, with its age', async () => {
  await decide();
  const before = new Date(now).toISOString();
  jest.advanceTimersByTime(1500);
  answers = away;
  const known = await decide();
  expect(known).toMatchObject({ stale: true, budgets: [{ spent: '50', as_of: before }] });
  await decide();
  expect(questions).toBe(2);
  jest.advanceTimersByTime(1000);
  answers = spent(60);
  const again = await decide();
  expect([again.stale, again.budgets?.[0]?.spent]).toEqual([undefined, '60']);
});

test('a balance that is not known, or is of a period that is over, is warned of', async () => {
  answers = away;
  const warnings = [{ path: '/action', message: expect.stringContaining('daily') }];
  const unknown = { decision: 'allow', stale: true, budgets: [], warnings };
  expect(await decide()).toMatchObject(unknown);
  jest.advanceTimersByTime(1000);
  answers = spent(95);
  expect((await decide()).decision).toBe('deny');
  jest.advanceTimersByTime(2000);
  answers = away;
  expect(await decide()).toMatchObject(unknown);
});

test('of another moment the notifier is asked each time', async () => {
  for (const at of ['2026-11-26T10:00:00Z', '2026-11-26T10:00:00Z']) await decide(daily, { at });
  await decide();
  expect(questions).toBe(3);
});

test('another error than an outage is no balance', async () => {
  await decide();
  jest.advanceTimersByTime(1000);
  answers = () => {
    throw new StrataError('not_found');
  };
  await expect(decide()).rejects.toMatchObject({ type: 'not_found' });
});
