/**
 * Which bounds hold for a key, in their order: those of the platform first, and what contradicts
 * them yields.
 */
import type { Bound, Bounds } from '../contracts/bounds.ts';
import { conjunction, type Limits } from './limits.ts';

/**
 * Whose bound it is: a key's own type, the platform, the limits of a service type, or the tenant.
 */
export type BoundOwner = 'type' | 'platform' | 'service_type' | 'tenant';

export interface BoundSet {
  readonly by: BoundOwner;
  readonly bounds: Bounds;
  /** Of the document that has them. */
  readonly revision: number | null;
  /** What the one who wrote it is called; absent for the platform, which tenants know as such. */
  readonly author?: string;
}

/** One owner's bound on one key. */
export interface BoundInForce extends Omit<BoundSet, 'bounds'> {
  readonly rule: Bound;
}

/**
 * What binds a key: the bounds that are enforced, each with all that have to hold together with it;
 * and the others.
 */
export interface Binding {
  readonly enforced: readonly (BoundInForce & { readonly limits: Limits })[];
  readonly warning: readonly BoundInForce[];
}

/**
 * The scaling_limits of a service type, for what its instance sets: they may have been lowered
 * since that was written.
 */
export function scalingBounds(
  instance: object,
  limits: { readonly min_instances?: number; readonly max_instances?: number },
  revision: number | null,
): BoundSet {
  const { min_instances: minimum, max_instances: maximum } = limits;
  const bound = {
    ...(minimum !== undefined && { minimum }),
    ...(maximum !== undefined && { maximum }),
  };
  const keys = ['min_instances', 'max_instances'].filter((key) => Object.hasOwn(instance, key));
  const isLimited = Object.keys(bound).length > 0;
  const bounds = Object.fromEntries(isLimited ? keys.map((key) => [key, bound]) : []);
  return { by: 'service_type', bounds, revision };
}

export const isEnforced = ({ mode }: Bound): boolean => mode !== 'warn';

/** Whether a bound holds for values of this service type; null: of none. */
const appliesTo = ({ service_types: types }: Bound, serviceType: string | null): boolean =>
  types === undefined || (serviceType !== null && types.includes(serviceType));

/** What binds `key` for values of this service type, by sets in the order of their authority. */
export function bindingOf(
  key: string,
  sets: readonly BoundSet[],
  serviceType: string | null,
): Binding {
  const enforced: (BoundInForce & { limits: Limits })[] = [];
  const warning: BoundInForce[] = [];
  for (const { bounds, ...owner } of sets) {
    const rule = Object.hasOwn(bounds, key) ? bounds[key] : undefined;
    if (rule === undefined || !appliesTo(rule, serviceType)) continue;
    const bound = { ...owner, rule };
    if (!isEnforced(rule)) {
      warning.push(bound);
      continue;
    }
    // One that contradicts those before it does not hold.
    const limits = conjunction(enforced.at(-1)?.limits ?? {}, rule);
    if (limits !== undefined) enforced.push({ ...bound, limits });
  }
  return { enforced, warning };
}
