/**
 * The platform's layers and bounds before and after a change: which keys they say something else
 * of, and what they say of those.
 */
import { isDeepStrictEqual } from 'node:util';
import type { PlatformLayers } from '../contracts/layers.ts';
import { orderedPairs } from './known-keys.ts';

type Values = Readonly<Record<string, unknown>>;

/**
 * The keys, and those that are held in order with one of them: what changes one may change the
 * other.
 */
export function withPairs(keys: Iterable<string>): string[] {
  const all = new Set(keys);
  for (const [lower, upper] of orderedPairs) {
    if (!all.has(lower) && !all.has(upper)) continue;
    all.add(lower);
    all.add(upper);
  }
  return [...all];
}

const cutDown = (values: Values, keys: ReadonlySet<string>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(values).filter(([key]) => keys.has(key)));

/**
 * What layers and bounds say of these keys. Limits of service types stay whole, because they bound
 * two keys by other names.
 */
export function layersOfKeys(layers: PlatformLayers, wanted: readonly string[]): PlatformLayers {
  const keys = new Set(wanted);
  const { entries, service_types: types, bounds, rollouts } = layers;
  return {
    ...(rollouts && { rollouts }),
    entries: entries.filter(({ document }) => keys.has(document.config_key)),
    service_types: Object.fromEntries(
      Object.entries(types).map(([name, { document, revision }]) => [
        name,
        {
          document: {
            default_settings: cutDown(document.default_settings, keys),
            scaling_limits: document.scaling_limits,
            monitoring_defaults: keys.has('monitoring_defaults')
              ? document.monitoring_defaults
              : {},
          },
          revision,
        },
      ]),
    ),
    bounds: bounds && {
      document: Object.fromEntries(
        Object.entries(bounds.document).filter(([key]) => keys.has(key)),
      ),
      revision: bounds.revision,
    },
  };
}

/** What a service type is as a layer. */
export function valuesOfType(layers: PlatformLayers, type: string): Values {
  if (!Object.hasOwn(layers.service_types, type)) return {};
  const { default_settings, scaling_limits, monitoring_defaults } =
    layers.service_types[type]!.document;
  return { ...default_settings, scaling_limits, monitoring_defaults };
}

export const valuesOfEntries = ({ entries }: PlatformLayers): Values =>
  Object.fromEntries(entries.map(({ document }) => [document.config_key, document.config_value]));

/** The keys whose value differs, or that only one of the two has. */
export function differingKeys(before: Values, after: Values): string[] {
  const all = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...all].filter(
    (key) =>
      Object.hasOwn(before, key) !== Object.hasOwn(after, key) ||
      !isDeepStrictEqual(before[key], after[key]),
  );
}

/**
 * The keys of which the platform says something else: in a layer, in its bounds, or as a limit of a
 * service type.
 */
export function changedKeys(before: PlatformLayers, after: PlatformLayers): string[] {
  const types = typesOf(before, after);
  const inLayers = [
    ...differingKeys(valuesOfEntries(before), valuesOfEntries(after)),
    ...types.flatMap((type) =>
      differingKeys(valuesOfType(before, type), valuesOfType(after, type)),
    ),
  ];
  const limited = inLayers.includes('scaling_limits') ? ['min_instances', 'max_instances'] : [];
  const bounded = differingKeys(before.bounds?.document ?? {}, after.bounds?.document ?? {});
  return [...new Set([...inLayers, ...limited, ...bounded])].toSorted();
}

/** The names of the service types that either has. */
export const typesOf = (before: PlatformLayers, after: PlatformLayers): string[] =>
  [
    ...new Set([...Object.keys(before.service_types), ...Object.keys(after.service_types)]),
  ].toSorted();
