/** What a document of budgets must fulfil beyond its schema, for what a write of it changes. */
import { isDeepStrictEqual } from 'node:util';
import type { Budget, Budgets } from '../contracts/budgets.ts';
import type { Problem } from '../errors.ts';
import { pointerTo } from '../schema/json-pointer.ts';
import { millionthsOf } from './decimal.ts';

/** `given`: the currency of the platform's budgets, or of projects', where these have one. */
export function budgetsProblems(
  next: Budgets,
  current: Budgets | null,
  given: string | undefined,
): Problem[] {
  const changed = Object.entries(next).filter(
    ([name, budget]) => !isDeepStrictEqual(budget, current && ownOf(current, name)),
  );
  const own = changed.flatMap(([name, budget]) => problemsOfBudget(name, budget));
  return own.length > 0 ? own : mixedCurrencies(changed, next, given);
}

const ownOf = (budgets: Budgets, name: string): Budget | undefined =>
  Object.hasOwn(budgets, name) ? budgets[name] : undefined;

function problemsOfBudget(name: string, budget: Budget): Problem[] {
  const { amount, currency, counts = 'cost' } = budget;
  if (counts === 'cost')
    return currency === undefined
      ? [{ path: pointerTo([name, 'currency']), message: 'is required where costs are counted' }]
      : [];
  return [
    ...(currency === undefined
      ? []
      : [
          { path: pointerTo([name, 'currency']), message: 'is for costs, and actions are counted' },
        ]),
    ...(millionthsOf(amount) % 1_000_000n === 0n
      ? []
      : [
          {
            path: pointerTo([name, 'amount']),
            message: 'must be a whole number, because actions are counted',
          },
        ]),
  ];
}

function mixedCurrencies(
  changed: readonly (readonly [string, Budget])[],
  next: Budgets,
  given: string | undefined,
): Problem[] {
  const expected = given ?? currencyIn(next);
  const whose =
    given === undefined ? 'other budgets here are in' : 'the platform or a project counts in';
  return changed.flatMap(([name, { currency }]) =>
    currency === undefined || currency === expected
      ? []
      : [
          {
            path: pointerTo([name, 'currency']),
            message: `must be ${expected}, which ${whose}: a tenant has one currency`,
          },
        ],
  );
}

export const currencyIn = (budgets: Budgets): string | undefined =>
  Object.values(budgets).find(({ currency }) => currency !== undefined)?.currency;
