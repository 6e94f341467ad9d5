/** What a document of bounds must fulfil beyond its schema, for what a write of it changes. */
import { isDeepStrictEqual } from 'node:util';
import type { Bound, Bounds } from '../contracts/bounds.ts';
import type { Problem } from '../errors.ts';
import { pointerTo } from '../schema/json-pointer.ts';
import { problemsOf } from '../schema/validate.ts';
import { bindingOf, isEnforced, type BoundInForce, type BoundSet } from './bounds-in-force.ts';
import { knownTypes, limitsOfKey, orderedPairs, schemaOfKey } from './known-keys.ts';
import { conjunction, hasConst, largestUpTo, smallestFrom, type Limits } from './limits.ts';

const keywords = ['const', 'minimum', 'maximum', 'enum', 'type'] as const;

/** Whose bounds are written, and what binds them. */
export interface BoundsChange {
  readonly by: 'platform' | 'tenant';
  readonly next: Bounds;
  readonly current: Bounds | null;
  /** The bounds that these keep to. */
  readonly above: readonly BoundSet[];
  /** The names of the service types that there are. */
  readonly serviceTypes: readonly string[];
}

/**
 * The problems of each bound that differs from the current one, and of pairs that leave no order.
 */
export function boundsProblems(change: BoundsChange): Problem[] {
  const { next, current } = change;
  const changed = Object.keys(next).filter(
    (key) => !isDeepStrictEqual(next[key], current && ownOf(current, key)),
  );
  const ofBounds = changed.flatMap((key) => boundProblems(key, next[key]!, change));
  return ofBounds.length > 0 ? ofBounds : pairProblems(changed, change);
}

const ownOf = (bounds: Bounds, key: string): Bound | undefined =>
  Object.hasOwn(bounds, key) ? bounds[key] : undefined;

function boundProblems(key: string, rule: Bound, change: BoundsChange): Problem[] {
  const own = [...ofKeywords(key, rule), ...ofServiceTypes(key, rule, change)];
  if (own.length > 0) return own;
  const path = pointerTo([key]);
  const known = limitsOfKey(key);
  if (conjunction(known, rule) === undefined)
    return [{ path, message: `allows no value that ${key} may have` }];
  return contradictions(key, rule, change);
}

function ofKeywords(key: string, rule: Bound): Problem[] {
  if (!keywords.some((keyword) => Object.hasOwn(rule, keyword)))
    return [{ path: pointerTo([key]), message: `needs one of ${keywords.join(', ')}` }];
  const type = knownTypes.get(key) ?? rule.type;
  const limits = (['minimum', 'maximum'] as const).flatMap((keyword) => {
    const limit = rule[keyword];
    if (limit === undefined || type === undefined) return [];
    const path = pointerTo([key, keyword]);
    if (type !== 'integer' && type !== 'number')
      return [{ path, message: `limits a number, and ${key} is of the type ${type}` }];
    if (type === 'integer' && !Number.isInteger(limit))
      return [{ path, message: `must be a whole number, because ${key} is one` }];
    return [];
  });
  const typeProblem =
    rule.type !== undefined && conjunction(limitsOfKey(key), { type: rule.type }) === undefined
      ? [{ path: pointerTo([key, 'type']), message: `is not that of ${key}, which is ${type}` }]
      : [];
  return [...limits, ...typeProblem, ...ofValues(key, rule)];
}

/** Values that a bound names have to be what their key may hold. */
function ofValues(key: string, rule: Bound): Problem[] {
  const schema = schemaOfKey(key);
  if (schema === undefined) return [];
  const named: [string[], unknown][] = (rule.enum ?? []).map((choice, index) => [
    [key, 'enum', String(index)],
    choice,
  ]);
  if (hasConst(rule)) named.push([[key, 'const'], rule.const]);
  return named.flatMap(([path, value]) =>
    problemsOf(schema, value).map((problem) => ({
      ...problem,
      path: pointerTo(path) + problem.path,
    })),
  );
}

/** A mistyped name would bind nothing, and nobody would notice. */
function ofServiceTypes(
  key: string,
  rule: Bound,
  { serviceTypes, current }: BoundsChange,
): Problem[] {
  const before = (current && ownOf(current, key)?.service_types) ?? [];
  return (rule.service_types ?? []).flatMap((type, index) => {
    if (serviceTypes.includes(type) || before.includes(type)) return [];
    const path = pointerTo([key, 'service_types', String(index)]);
    return [
      { path, message: `is not an active service type; there are ${serviceTypes.join(', ')}` },
    ];
  });
}

function contradictions(key: string, rule: Bound, { above }: BoundsChange): Problem[] {
  const higher = contradicted(key, rule, above);
  if (higher === undefined) return [];
  const { by, revision } = higher;
  const message = `contradicts the guardrail of the ${by} (revision ${revision}): ${describe(higher.rule)}`;
  return [{ path: pointerTo([key]), message }];
}

/** The bound of these that leaves the rule no value; undefined where none does. */
export function contradicted(
  key: string,
  rule: Bound,
  above: readonly BoundSet[],
): BoundInForce | undefined {
  if (!isEnforced(rule)) return undefined;
  for (const { bounds, ...owner } of above) {
    const higher = ownOf(bounds, key);
    if (higher === undefined || !isEnforced(higher) || !overlap(rule, higher)) continue;
    const limits = conjunction(limitsOfKey(key), higher);
    if (limits !== undefined && conjunction(limits, rule) === undefined)
      return { ...owner, rule: higher };
  }
  return undefined;
}

/** Whether there are service types for which both hold. */
const overlap = ({ service_types: one }: Bound, { service_types: other }: Bound): boolean =>
  one === undefined || other === undefined || one.some((type) => other.includes(type));

/** Pairs that a change leaves without an order, for values of any service type or of none. */
function pairProblems(changed: readonly string[], change: BoundsChange): Problem[] {
  const own: BoundSet = { by: change.by, bounds: change.next, revision: null };
  const sets = [...change.above, own];
  return orderedPairs.flatMap((pair) => {
    const [lower, upper] = pair;
    const key = [upper, lower].find((each) => changed.includes(each));
    if (key === undefined || disorderedTypes(pair, sets).length === 0) return [];
    return [{ path: pointerTo([key]), message: `leaves no ${lower} that is at most ${upper}` }];
  });
}

type Pair = readonly [string, string];

/**
 * The service types for whose values the bounds leave the pair no order; null among them: for
 * values of none.
 */
function disorderedTypes([lower, upper]: Pair, sets: readonly BoundSet[]): (string | null)[] {
  const types = sets.flatMap(({ bounds }) =>
    [lower, upper].flatMap((each) => ownOf(bounds, each)?.service_types ?? []),
  );
  return [null, ...new Set(types)].filter((type) => {
    const least = smallestFrom(-Infinity, limitsIn(lower, sets, type));
    const most = largestUpTo(Infinity, limitsIn(upper, sets, type));
    return least !== undefined && most !== undefined && least > most;
  });
}

/**
 * The bounds of `own` on pairs that together with those `above` have no order, and so yield for
 * both keys; `to` is what it yields to, on the other key of the pair where there is one.
 */
export function yieldingPairs(own: BoundSet, above: readonly BoundSet[]) {
  const sets = [...above, own];
  return orderedPairs.flatMap((pair: Pair) => {
    const disordered = disorderedTypes(pair, sets);
    const types = disordered.includes(null) ? [null] : disordered;
    return types.flatMap((serviceType) =>
      pair.flatMap((key) => {
        const bound = enforcedOn(key, [own], serviceType);
        const other = pair.find((each) => each !== key)!;
        const to = enforcedOn(other, above, serviceType) ?? enforcedOn(key, above, serviceType);
        if (bound === undefined || to === undefined) return [];
        const isAlone = contradicted(key, bound.rule, above) !== undefined;
        return isAlone ? [] : [{ key, rule: bound.rule, serviceType, to }];
      }),
    );
  });
}

function enforcedOn(
  key: string,
  sets: readonly BoundSet[],
  serviceType: string | null,
): BoundInForce | undefined {
  const bound = bindingOf(key, sets, serviceType).enforced.at(-1);
  if (bound === undefined) return undefined;
  const { limits: _limits, ...inForce } = bound;
  return inForce;
}

function limitsIn(key: string, sets: readonly BoundSet[], serviceType: string | null): Limits {
  const { enforced } = bindingOf(key, sets, serviceType);
  return conjunction(limitsOfKey(key), enforced.at(-1)?.limits ?? {}) ?? {};
}

/** A bound's keywords in words, for whoever is refused by it. */
export const describe = (rule: Bound): string =>
  keywords
    .filter((keyword) => Object.hasOwn(rule, keyword))
    .map((keyword) => `${keyword} ${JSON.stringify(rule[keyword]).slice(0, 100)}`)
    .join(', ');
