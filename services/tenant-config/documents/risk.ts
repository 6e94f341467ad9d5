import { riskDefaults, RiskConfig, type RiskLimits } from '../../../shared/contracts/risk.ts';
import type { Problem } from '../../../shared/errors.ts';
import type { DocumentKind } from '../../../shared/documents/document.ts';
import type { Settings } from '../../../shared/settings.ts';
import { managedTypes, type ManagedTypes } from '../managed-types.ts';
import { RiskEntity } from '../schema.ts';
import { tenantDocument, type TenantParams } from './tenant-document.ts';

/** What a new tenant gets: limits from the settings, one empty override per active service type. */
export const seedRisk = (settings: Settings, types: ManagedTypes): RiskConfig => ({
  global_settings: riskDefaults(settings),
  service_overrides: Object.fromEntries(types.map(({ service_type }) => [service_type, {}])),
});

interface Context {
  readonly seeds: RiskConfig;
  readonly types: ManagedTypes;
}

export function riskKind(
  settings: () => Settings,
): DocumentKind<TenantParams, RiskConfig, Context> {
  return {
    ...tenantDocument<TenantParams, RiskConfig>({
      resource: 'risk',
      configType: 'tenant_risk_config',
      entity: RiskEntity,
      target: ({ tenant_id }) => tenant_id,
    }),
    schema: RiskConfig,
    async prepare(_params, request) {
      const types = await managedTypes(request);
      return { types, seeds: seedRisk(settings(), types) };
    },
    settle: (draft, _params, _current, { seeds }) => {
      const limits = draft?.global_settings ?? {};
      return {
        ...draft,
        global_settings: isObject(limits) ? { ...seeds.global_settings, ...limits } : limits,
        service_overrides: draft?.service_overrides ?? seeds.service_overrides,
      };
    },
    check: (next, _params, current, { types }) => checkRisk(next, current, types),
  };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A type that has become inactive may stay where it was, so that an old document can be written back. */
export function checkRisk(
  { global_settings: limits, service_overrides: overrides }: RiskConfig,
  current: RiskConfig | null,
  types: ManagedTypes,
): Problem[] {
  const known = new Set([
    ...types.map(({ service_type }) => service_type),
    ...Object.keys(current?.service_overrides ?? {}),
  ]);
  const problems = order(limits, '/global_settings');
  for (const [type, override] of Object.entries(overrides)) {
    const path = `/service_overrides/${type}`;
    if (!known.has(type))
      problems.push({
        path,
        message: `is not an active service type; there are ${types.map(({ service_type }) => service_type).join(', ')}`,
      });
    if ('max_cost_impact_auto' in override || 'max_cost_impact_approval' in override)
      problems.push(...order({ ...limits, ...override } as RiskLimits, path));
  }
  return problems;
}

const order = (
  { max_cost_impact_auto: auto, max_cost_impact_approval: approval }: RiskLimits,
  path: string,
): Problem[] =>
  auto <= approval
    ? []
    : [
        {
          path: `${path}/max_cost_impact_auto`,
          message: `is ${auto}, which is more than max_cost_impact_approval (${approval})`,
        },
      ];
