/** Merging layers of configuration, whatever they are layers of. */

/** A layer of configuration: names to values, or nothing. */
export type Layer = Readonly<Record<string, unknown>> | null | undefined;

/**
 * One dictionary from ordered layers, lowest precedence first. Null and empty layers are skipped;
 * for every key the value of the latest layer that has it wins, also where that value is null.
 * Shallow: a nested object replaces the earlier one entirely. A key named `__proto__` is data,
 * which Object.fromEntries keeps so and Object.assign does not. No layer is copied once more for each
 * above it.
 */
export const layeredMerge = (layers: readonly Layer[]): Record<string, unknown> =>
  Object.fromEntries(layers.flatMap((layer) => Object.entries(layer ?? {})));

/** The first value that is not null (or undefined), otherwise the default, otherwise null. */
export const resolveValue = <T>(
  values: readonly (T | null | undefined)[],
  fallback: T | null = null,
): T | null => values.find((value) => value !== null && value !== undefined) ?? fallback;
