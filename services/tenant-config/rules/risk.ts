/** What a risk configuration must fulfil beyond its schema, and what a new tenant's is. */
import { ofKnownTypes } from '../../../shared/bounds/known-keys.ts';
import {
  overrideNames,
  riskDefaults,
  type RiskConfig,
  type RiskLimits,
  type RiskSettings,
} from '../../../shared/contracts/risk.ts';
import type { Problem } from '../../../shared/errors.ts';
import { nearestName } from '../../../shared/nearest.ts';
import { pointerTo } from '../../../shared/schema/json-pointer.ts';
import type { ManagedTypes } from '../stores/managed-types.ts';
import { notAnActiveType } from './checks.ts';

/**
 * What a new tenant gets: limits from the settings, one empty override per active service type. What
 * is recorded follows the setting until the tenant says otherwise.
 */
export function seedRisk(settings: RiskSettings, types: ManagedTypes): RiskConfig {
  const { record_decisions: _followed, ...limits } = riskDefaults(settings);
  return {
    global_settings: limits,
    service_overrides: Object.fromEntries(types.map(({ service_type }) => [service_type, {}])),
  };
}

/**
 * A type that has become inactive may stay where it was, so that an old document can be written
 * back.
 */
export function checkRisk(
  { global_settings: limits, service_overrides: overrides }: RiskConfig,
  current: RiskConfig | null,
  types: ManagedTypes,
): Problem[] {
  const allowed = new Set([
    ...types.map(({ service_type }) => service_type),
    ...Object.keys(current?.service_overrides ?? {}),
  ]);
  const problems = costOrder(limits, '/global_settings');
  for (const [type, override] of Object.entries(overrides)) {
    const path = `/service_overrides/${type}`;
    if (!allowed.has(type)) problems.push(notAnActiveType(path, types));
    problems.push(...misspelt(override, currentOf(type, current), type));
    problems.push(...ofKnownTypes(override, currentOf(type, current), path));
    if ('max_cost_impact_auto' in override || 'max_cost_impact_approval' in override)
      problems.push(...costOrder({ ...limits, ...override }, path));
  }
  return problems;
}

/**
 * Names that are nearly those of limits: an override may hold any key, and a misspelt limit would
 * bind nothing. What is stored already may stay.
 */
const misspelt = (
  override: Readonly<Record<string, unknown>>,
  current: Readonly<Record<string, unknown>>,
  type: string,
): Problem[] =>
  Object.keys(override).flatMap((key) => {
    if (overrideNames.includes(key) || Object.hasOwn(current, key)) return [];
    const nearest = nearestName(overrideNames, key);
    if (nearest === undefined) return [];
    const path = pointerTo(['service_overrides', type, key]);
    return [{ path, message: `is no limit; did you mean ${nearest}?` }];
  });

const currentOf = (type: string, current: RiskConfig | null): Readonly<Record<string, unknown>> =>
  current && Object.hasOwn(current.service_overrides, type) ? current.service_overrides[type]! : {};

type CostLimits = Pick<RiskLimits, 'max_cost_impact_auto' | 'max_cost_impact_approval'>;

/** What automation may do alone is no more than what a human may approve. */
function costOrder(
  { max_cost_impact_auto: auto, max_cost_impact_approval: approval }: CostLimits,
  path: string,
): Problem[] {
  if (auto <= approval) return [];
  return [
    {
      path: `${path}/max_cost_impact_auto`,
      message: `is ${auto}, which is more than max_cost_impact_approval (${approval})`,
    },
  ];
}
