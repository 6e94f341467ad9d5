/** What bounds make of merged layers: the values that they allow, and what each bound did. */
import {
  bindingOf,
  type Binding,
  type BoundInForce,
  type BoundSet,
} from '../../../shared/bounds/bounds-in-force.ts';
import { knownTypes, orderedPairs } from '../../../shared/bounds/known-keys.ts';
import {
  clamped,
  hasConst,
  largestUpTo,
  ownValue,
  satisfies,
  smallestFrom,
  type Limits,
} from '../../../shared/bounds/limits.ts';
import { layeredMerge, type Layer } from './layered-merge.ts';

/** A value, and the index of the layer that it is from; null where it is a bound's own. */
export interface Held {
  readonly value: unknown;
  readonly layer: number | null;
}

/** With the key that it is on: the value's own, or the other one of its pair. */
export type ActingBound = BoundInForce & { readonly key: string };

/** What became of one key that bounds say something about. */
export interface BoundedValue {
  /** Null where the key is absent. */
  readonly held: Held | null;
  /** The bound that changed the value last; undefined where none did. */
  readonly enforced?: ActingBound;
  /** What the layers alone say; null where none has the key. */
  readonly asked: Held | null;
  /** Bounds that would only warn of the value. */
  readonly warned: readonly BoundInForce[];
}

export interface Bounded {
  readonly values: Record<string, unknown>;
  /** The keys that a bound changed or warns of. */
  readonly bounded: ReadonlyMap<string, BoundedValue>;
}

/** The types of known keys as bounds, which are before all others. */
const types: BoundSet = {
  by: 'type',
  bounds: Object.fromEntries([...knownTypes].map(([key, type]) => [key, { type }])),
  revision: null,
};

/**
 * The merged layers, lowest precedence first, within bounds, which are given in the order of their
 * authority: one that contradicts those before it yields. A number outside its limits becomes the
 * limit, `const` replaces any value, and sets an absent key; in place of other values stands that
 * of the nearest lower layer that the bound allows, else the bound's own, else none. After that
 * pairs such as `min_instances` and `max_instances` are in order where a bound changed either: the
 * lower one follows, unless its own bound forbids that.
 *
 * A known key always has its type, or null, which says that there is no value.
 */
export function applyBounds(
  layers: readonly Layer[],
  sets: readonly BoundSet[],
  serviceType: string | null,
): Bounded {
  const merged = layeredMerge(layers);
  const context: Context = { layers, sets: [types, ...sets], serviceType };
  const settled = new Map<string, Settled>();
  for (const key of keysToSettle(merged, sets)) settled.set(key, settle(key, context));
  for (const pair of orderedPairs) orderPair(pair, settled, context);

  const bounded = new Map<string, BoundedValue>();
  const changed: [string, unknown][] = [];
  const removed = new Set<string>();
  for (const [key, { held, enforced, asked, binding }] of settled) {
    const warned =
      held === null ? [] : binding.warning.filter(({ rule }) => !satisfies(held.value, rule));
    if (enforced === undefined && warned.length === 0) continue;
    bounded.set(key, { held, asked, warned, ...(enforced && { enforced }) });
    if (held === null) removed.add(key);
    else changed.push([key, held.value]);
  }
  const kept =
    removed.size === 0
      ? merged
      : Object.fromEntries(Object.entries(merged).filter(isNotIn(removed)));
  const values = changed.length === 0 ? kept : layeredMerge([kept, Object.fromEntries(changed)]);
  return { values, bounded };
}

const isNotIn =
  (removed: ReadonlySet<string>) =>
  ([key]: readonly [string, unknown]): boolean =>
    !removed.has(key);

interface Context {
  readonly layers: readonly Layer[];
  readonly sets: readonly BoundSet[];
  readonly serviceType: string | null;
}

interface Settled {
  readonly held: Held | null;
  readonly asked: Held | null;
  readonly enforced?: ActingBound;
  readonly binding: Binding;
}

/** The keys that a bound names, and the known ones whose value is of another type. */
function keysToSettle(
  merged: Readonly<Record<string, unknown>>,
  sets: readonly BoundSet[],
): Set<string> {
  const keys = new Set(sets.flatMap(({ bounds }) => Object.keys(bounds)));
  for (const [key, type] of knownTypes) {
    if (Object.hasOwn(merged, key) && !isOfKnownType(merged[key], { type })) keys.add(key);
  }
  return keys;
}

const isOfKnownType = (value: unknown, limits: Limits): boolean =>
  value === null || satisfies(value, limits);

/** The values that layers have for a key, highest first. */
const valuesOf = (key: string, layers: readonly Layer[]): Held[] =>
  layers
    .flatMap((layer, index) =>
      layer && Object.hasOwn(layer, key) ? [{ value: layer[key], layer: index }] : [],
    )
    .toReversed();

/** What one key's bounds make of it, without a look at its pair. */
function settle(key: string, { layers, sets, serviceType }: Context): Settled {
  const values = valuesOf(key, layers);
  const binding = bindingOf(key, sets, serviceType);
  const asked = values[0] ?? null;
  let held = asked;
  let below = values.slice(1);
  let acting: ActingBound | undefined;
  for (const { limits, ...bound } of binding.enforced) {
    if (isAllowed(held, limits, bound)) continue;
    held = replacementOf(held, below, limits);
    acting = { ...bound, key };
    const layer = held?.layer;
    if (typeof layer === 'number') below = below.filter((each) => each.layer! < layer);
  }
  return { held, asked, binding, ...(acting && { enforced: acting }) };
}

function isAllowed(held: Held | null, limits: Limits, { by }: BoundInForce): boolean {
  if (held === null) return !hasConst(limits);
  return by === 'type' ? isOfKnownType(held.value, limits) : satisfies(held.value, limits);
}

function replacementOf(held: Held | null, below: readonly Held[], limits: Limits): Held | null {
  if (hasConst(limits)) return { value: limits.const, layer: null };
  if (typeof held?.value === 'number') {
    const nearest = clamped(held.value, limits);
    if (satisfies(nearest, limits)) return { value: nearest, layer: null };
  }
  const lower = below.find(({ value }) => satisfies(value, limits));
  if (lower) return lower;
  const own = ownValue(limits);
  return own ? { ...own, layer: null } : null;
}

/**
 * Puts a pair in order where a bound changed one of it. Where bounds leave no order, as two owners'
 * may, those of the later owner yield for both keys.
 */
function orderPair(
  [lowerKey, upperKey]: readonly [string, string],
  settled: Map<string, Settled>,
  context: Context,
): void {
  if (!settled.get(lowerKey)?.enforced && !settled.get(upperKey)?.enforced) return;
  // The first set is the keys' own types, the second is the platform's, which yields to nobody.
  for (let count = context.sets.length; count > 1; count -= 1) {
    const left = { ...context, sets: context.sets.slice(0, count) };
    const ordered = inOrder(settle(lowerKey, left), settle(upperKey, left));
    if (ordered === undefined) continue;
    settled.set(lowerKey, ordered[0]);
    settled.set(upperKey, ordered[1]);
    return;
  }
}

/** Undefined where the bounds of the two allow no order. */
function inOrder(lower: Settled, upper: Settled): readonly [Settled, Settled] | undefined {
  const low = lower.held?.value;
  const high = upper.held?.value;
  if (typeof low !== 'number' || typeof high !== 'number' || low <= high) return [lower, upper];
  const lowerLimits = limitsOf(lower);
  const upperLimits = limitsOf(upper);
  const following = largestUpTo(high, lowerLimits);
  if (following !== undefined) return [moved(lower, following, upper), upper];
  const least = smallestFrom(-Infinity, lowerLimits);
  if (least === undefined) return undefined;
  const raised = smallestFrom(least, upperLimits);
  if (raised === undefined) return undefined;
  return [least === low ? lower : moved(lower, least, upper), moved(upper, raised, lower)];
}

const limitsOf = ({ binding }: Settled): Limits => binding.enforced.at(-1)?.limits ?? {};

/** One of a pair that follows the other, by the bound that moved the other. */
function moved(one: Settled, value: number, other: Settled): Settled {
  const enforced = other.enforced ?? one.enforced;
  return { ...one, held: { value, layer: null }, ...(enforced && { enforced }) };
}
