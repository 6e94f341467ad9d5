/**
 * What keeps a change set from being applied at its time, when nobody is there to look: an emergency
 * stop, and freezes that are about `config.change` of low risk.
 */
import { bindingOf, type BoundSet } from '../bounds/bounds-in-force.ts';
import { satisfies } from '../bounds/limits.ts';
import { frozenBy } from '../budgets/frozen-by.ts';
import { matchesPlace } from '../budgets/matching.ts';
import type { Bound, Bounds } from '../contracts/bounds.ts';
import type { DecisionReason } from '../contracts/decide.ts';
import type { Freezes } from '../contracts/freezes.ts';
import type { StoredItem } from './schema.ts';

/** What automation would say of applying one. */
export const applying = { action: 'config.change', risk_level: 'low' } as const;

const stopped = 'The emergency stop holds.';
const isStop = (rule: Bound): boolean => !satisfies(true, rule);
const frozen = (name: string | undefined): string => `The freeze ${name} holds.`;

/**
 * Of a tenant, by what a decision on it says and by the bounds that hold there; undefined where
 * nothing is against it. A layer that says what a bound wants is the one that reasons name.
 */
export function stoppedBy(
  reasons: readonly DecisionReason[],
  bounds: readonly BoundSet[],
): string | undefined {
  const isStopped = ({ rule, layer }: DecisionReason): boolean =>
    rule === 'automation_enabled' && layer === 'bounds';
  const { enforced } = bindingOf('automation_enabled', bounds, null);
  if (reasons.some(isStopped) || enforced.some(({ rule }) => isStop(rule))) return stopped;
  const freeze = reasons.find(({ rule }) => rule === 'freeze');
  return freeze && frozen(freeze.name);
}

/**
 * Of the platform, whose documents hold for no tenant alone. What is about some service types or
 * instances is about none of its own changes, as with a tenant's.
 */
export function platformStoppedBy(bounds: Bounds, freezes: Freezes, at: Date): string | undefined {
  const ofPlatform = { by: 'platform', bounds, revision: null } as const;
  const { enforced } = bindingOf('automation_enabled', [ofPlatform], null);
  if (enforced.some(({ rule }) => isStop(rule))) return stopped;
  const inForce = Object.entries(freezes)
    .filter(([, { mode, match }]) => mode !== 'warn' && matchesPlace(match, {}))
    .map(([name, rule]) => ({ by: 'platform', name, rule, revision: 0 }) as const);
  const [first] = frozenBy(inForce, { ...applying, isRollback: false, at: at.getTime() });
  return first && frozen(first.name);
}

/** Whether it is of stops and freezes alone, which are lifted by such. */
export const isOfStops = (items: readonly StoredItem[]): boolean =>
  items.every(({ path }) => /^(?:\/tenants\/[^/]+)?\/config\/(?:bounds|freezes)$/.test(path));
