/**
 * What a bound allows: the algebra of its keywords, for the services that enforce bounds and for
 * those that judge them.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Bound, ValueType } from '../contracts/bounds.ts';
import { isObject } from '../schema/json-pointer.ts';

/** The keywords of a bound that judge values. A value has to satisfy all of them. */
export type Limits = Pick<Bound, 'const' | 'minimum' | 'maximum' | 'enum' | 'type'>;

const isOfType: Readonly<Record<ValueType, (value: unknown) => boolean>> = {
  boolean: (value) => typeof value === 'boolean',
  integer: (value) => Number.isInteger(value),
  number: (value) => typeof value === 'number',
  string: (value) => typeof value === 'string',
  array: (value) => Array.isArray(value),
  object: isObject,
};

export const hasConst = (limits: Limits): boolean => Object.hasOwn(limits, 'const');

/** Whether a value is what the limits allow. Limits on numbers allow nothing but numbers. */
export function satisfies(value: unknown, limits: Limits): boolean {
  const { minimum, maximum, enum: choices, type } = limits;
  if (hasConst(limits) && !isDeepStrictEqual(value, limits.const)) return false;
  if (choices !== undefined && !choices.some((choice) => isDeepStrictEqual(value, choice)))
    return false;
  if (type !== undefined && !isOfType[type](value)) return false;
  if (minimum === undefined && maximum === undefined) return true;
  return (
    typeof value === 'number' && value >= (minimum ?? -Infinity) && value <= (maximum ?? Infinity)
  );
}

/**
 * Whether an effective value that is a limit refuses what is asked. A bound may leave a limit
 * without a value: then it is as strict as it can be.
 */
export const exceeds = (asked: number | undefined, limit: unknown): boolean =>
  asked !== undefined && (typeof limit !== 'number' || asked > limit);

/** What satisfies both; undefined where nothing does, so that they contradict each other. */
export function conjunction(first: Limits, second: Limits): Limits | undefined {
  const type = narrowerType(first.type, second.type);
  if (type === null) return undefined;
  const { minimum, maximum } = interval(first, second, type);
  if (minimum !== undefined && maximum !== undefined && minimum > maximum) return undefined;
  const isNumeric = minimum !== undefined || maximum !== undefined;
  if (isNumeric && type !== undefined && type !== 'integer' && type !== 'number') return undefined;

  const plain: Limits = {
    ...(type !== undefined && { type }),
    ...(minimum !== undefined && { minimum }),
    ...(maximum !== undefined && { maximum }),
  };
  const isInBoth = (value: unknown): boolean =>
    satisfies(value, first) && satisfies(value, second) && satisfies(value, plain);
  const fixed = [second, first].find(hasConst);
  if (fixed) return isInBoth(fixed.const) ? { ...plain, const: fixed.const } : undefined;
  const choices = second.enum ?? first.enum;
  if (choices === undefined) return plain;
  const left = choices.filter(isInBoth);
  return left.length === 0 ? undefined : { ...plain, enum: left };
}

/** Null where no value is of both types. */
function narrowerType(
  first: ValueType | undefined,
  second: ValueType | undefined,
): ValueType | undefined | null {
  if (first === undefined || first === second) return second;
  if (second === undefined) return first;
  const both = [first, second].toSorted().join();
  return both === 'integer,number' ? 'integer' : null;
}

/** The numbers that are left; for whole numbers from one whole number to another. */
function interval(
  first: Limits,
  second: Limits,
  type: ValueType | undefined,
): Pick<Limits, 'minimum' | 'maximum'> {
  const lowest = Math.max(first.minimum ?? -Infinity, second.minimum ?? -Infinity);
  const highest = Math.min(first.maximum ?? Infinity, second.maximum ?? Infinity);
  const isWhole = type === 'integer';
  return {
    ...(lowest !== -Infinity && { minimum: isWhole ? Math.ceil(lowest) : lowest }),
    ...(highest !== Infinity && { maximum: isWhole ? Math.floor(highest) : highest }),
  };
}

/** The number of the interval that is nearest to this one. */
export const clamped = (value: number, { minimum, maximum }: Limits): number =>
  Math.max(minimum ?? -Infinity, Math.min(maximum ?? Infinity, value));

/**
 * What the limits themselves say where no layer holds a value that they allow; undefined where they
 * name none.
 */
export function ownValue(limits: Limits): { readonly value: unknown } | undefined {
  if (hasConst(limits)) return { value: limits.const };
  if (limits.enum !== undefined) return { value: limits.enum[0] };
  const limit = limits.minimum ?? limits.maximum;
  return limit === undefined ? undefined : { value: limit };
}

/**
 * The largest number that the limits allow and that is no larger than `most`; undefined where there
 * is none.
 */
export function largestUpTo(most: number, limits: Limits): number | undefined {
  const choices = numbersOf(limits);
  if (choices) return choices.filter((number) => number <= most).at(-1);
  const number = clamped(limits.type === 'integer' ? Math.floor(most) : most, {
    ...limits,
    minimum: undefined,
  });
  return number >= (limits.minimum ?? -Infinity) ? number : undefined;
}

/**
 * The smallest number that the limits allow and that is no smaller than `least`; undefined where
 * there is none.
 */
export function smallestFrom(least: number, limits: Limits): number | undefined {
  const choices = numbersOf(limits);
  if (choices) return choices.find((number) => number >= least);
  const number = clamped(limits.type === 'integer' ? Math.ceil(least) : least, {
    ...limits,
    maximum: undefined,
  });
  return number <= (limits.maximum ?? Infinity) ? number : undefined;
}

/** The numbers among fixed values, in order; undefined where limits name no values. */
function numbersOf(limits: Limits): number[] | undefined {
  const values = hasConst(limits) ? [limits.const] : limits.enum;
  return values
    ?.filter((value): value is number => typeof value === 'number' && satisfies(value, limits))
    .toSorted((a, b) => a - b);
}
