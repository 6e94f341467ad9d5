/**
 * The values that a tenant's documents give to keys of the effective configuration, and which
 * bounds these are outside of.
 */
import { isDeepStrictEqual } from 'node:util';
import { describe } from './bounds-document.ts';
import { bindingOf, isEnforced, type BoundInForce, type BoundSet } from './bounds-in-force.ts';
import { satisfies } from './limits.ts';
import { instanceValues } from '../contracts/service-instances.ts';
import type { Problem } from '../errors.ts';
import { pointerTo } from '../schema/json-pointer.ts';

export interface PlacedValue {
  readonly key: string;
  readonly value: unknown;
  /** Where it is in its document. */
  readonly path: string;
  /** What it is a value for; null where it is one for every service type. */
  readonly serviceType: string | null;
}

const placed = (
  values: Readonly<Record<string, unknown>>,
  serviceType: string | null,
  under: readonly string[] = [],
): PlacedValue[] =>
  Object.entries(values).map(([key, value]) => ({
    key,
    value,
    path: pointerTo([...under, key]),
    serviceType,
  }));

/** Documents may be cut down to some of their keys. */
type Values = Readonly<Record<string, unknown>>;
interface RiskValues {
  readonly global_settings: Values;
  readonly service_overrides: Readonly<Record<string, Values>>;
}

export const valuesOfRisk = ({ global_settings, service_overrides }: RiskValues): PlacedValue[] => [
  ...placed(global_settings, null, ['global_settings']),
  ...Object.entries(service_overrides).flatMap(([type, override]) =>
    placed(override, type, ['service_overrides', type]),
  ),
];

export const valuesOfAgent = ({ agent_type: _type, ...values }: Values): PlacedValue[] =>
  placed(values, null);

export const valuesOfInstance = (
  instance: Values & { readonly service_type: string },
): PlacedValue[] => placed(instanceValues(instance), instance.service_type);

/** A bound that a value is outside of. */
export interface Violation {
  readonly placed: PlacedValue;
  readonly bound: BoundInForce;
}

/**
 * Bounds that warn as well as those that are enforced. One for some service types says nothing of a
 * value for all of them.
 */
export const violationsOf = (
  values: readonly PlacedValue[],
  sets: readonly BoundSet[],
): Violation[] =>
  values.flatMap((placed) => {
    const { enforced, warning } = bindingOf(placed.key, sets, placed.serviceType);
    return [...enforced, ...warning]
      .filter(({ rule }) => !satisfies(placed.value, rule))
      .map((bound) => ({ placed, bound }));
  });

/** The values of `next` that `current` does not have in the same place. */
function changedValues(
  next: readonly PlacedValue[],
  current: readonly PlacedValue[],
): PlacedValue[] {
  const before = new Map(current.map(({ path, value }) => [path, value]));
  return next.filter(
    ({ path, value }) => !before.has(path) || !isDeepStrictEqual(before.get(path), value),
  );
}

/**
 * What a write changes to values outside of bounds: refused by those that are enforced, told of by
 * those that warn.
 */
export function boundViolations<Document>(
  valuesOf: (document: Document) => PlacedValue[],
  next: Document,
  current: Document | null,
  sets: readonly BoundSet[],
): { readonly refused: Problem[]; readonly warned: Problem[] } {
  if (sets.length === 0) return { refused: [], warned: [] };
  const changed = changedValues(valuesOf(next), current === null ? [] : valuesOf(current));
  const violations = violationsOf(changed, sets);
  const isRefusal = ({ bound }: Violation): boolean => isEnforced(bound.rule);
  return {
    refused: violations.filter(isRefusal).map(problemOf),
    warned: violations.filter((violation) => !isRefusal(violation)).map(problemOf),
  };
}

/** The path, the rule and its owner, for whoever writes the value. */
function problemOf({ placed: { key, value, path }, bound }: Violation): Problem {
  const { by, rule, revision, author } = bound;
  const owner = by === 'platform' ? 'the platform' : 'the tenant';
  const said = JSON.stringify(value).slice(0, 100);
  const why = rule.reason === undefined ? '' : `: ${rule.reason}`;
  const setBy = author === undefined ? '' : `, set by ${author}`;
  const message = `is ${said}; the guardrail of ${owner} on ${key} is ${describe(rule)} (revision ${revision}${setBy})${why}`;
  return { path, message };
}
