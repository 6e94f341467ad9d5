/**
 * Whether a change of a document can only deny automation more than before, by the direction that
 * is safer for each limit. What is not known to do so is not said to.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Bounds, Bound } from '../contracts/bounds.ts';
import type { Budgets } from '../contracts/budgets.ts';
import type { Freezes } from '../contracts/freezes.ts';
import { saferLimits, type RiskConfig } from '../contracts/risk.ts';

const own = (value: object | undefined, name: string): unknown =>
  value !== undefined && Object.hasOwn(value, name)
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;

/** Whether every member that differs is one of which `isSafer` says so. */
function onlySafer(
  before: object,
  after: object,
  isSafer: (name: string, after: unknown, before: unknown) => boolean,
): boolean {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.every((name) => {
    const [was, is] = [own(before, name), own(after, name)];
    return isDeepStrictEqual(was, is) || isSafer(name, is, was);
  });
}

function isSaferLimit(name: string, after: unknown, before: unknown): boolean {
  const safer = own(saferLimits, name);
  if (safer === 'lower')
    return typeof before === 'number' && typeof after === 'number' && after < before;
  // Other names are not known to have a safer side, also where they go.
  return typeof safer === 'boolean' && typeof before === 'boolean' && safer === after;
}

/** Of limits by their names, where something differs and all of it is safer. */
export const tightensLimits = (before: object, after: object): boolean =>
  !isDeepStrictEqual(before, after) && onlySafer(before, after, isSaferLimit);

export const tightensRisk = (before: RiskConfig | null, after: RiskConfig | null): boolean =>
  before !== null &&
  after !== null &&
  onlySafer(before.global_settings, after.global_settings, isSaferLimit) &&
  onlySafer(before.service_overrides, after.service_overrides, (_type, next = {}, current = {}) =>
    onlySafer(current as object, next as object, (name, limit, earlier) =>
      // Where the service type has no override, what all have holds for it.
      isSaferLimit(
        name,
        limit === undefined ? own(after.global_settings, name) : limit,
        earlier === undefined ? own(before.global_settings, name) : earlier,
      ),
    ),
  );

/** A bound that holds a limit to its safer side, be it for some service types alone. */
function isSaferBound(name: string, bound: Bound): boolean {
  const { mode = 'enforce', reason: _reason, service_types: _types, ...rest } = bound;
  const safer = own(saferLimits, name);
  const [limit, ...others] = Object.keys(rest);
  if (mode !== 'enforce' || others.length > 0) return false;
  return safer === 'lower'
    ? limit === 'maximum'
    : limit === 'const' && typeof safer === 'boolean' && bound.const === safer;
}

/** Bounds that are added, each to the safer side of a limit that Strata knows. */
export const tightensBounds = (before: Bounds | null, after: Bounds | null): boolean =>
  after !== null &&
  onlySafer(
    before ?? {},
    after,
    (name, next, current) =>
      current === undefined && next !== undefined && isSaferBound(name, next as Bound),
  );

/** Freezes that are added: each denies by itself. */
export const tightensFreezes = (before: Freezes | null, after: Freezes | null): boolean =>
  after !== null &&
  onlySafer(
    before ?? {},
    after,
    (_name, next, current) => current === undefined && next !== undefined,
  );

/** Budgets that are added, or have a smaller amount. */
export const tightensBudgets = (before: Budgets | null, after: Budgets | null): boolean =>
  after !== null &&
  onlySafer(before ?? {}, after, (_name, next, current) => {
    if (current === undefined || next === undefined) return next !== undefined;
    const { amount, ...rest } = next as Budgets[string];
    const { amount: was, ...others } = current as Budgets[string];
    return isDeepStrictEqual(rest, others) && Number(amount) < Number(was);
  });
