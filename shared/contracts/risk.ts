/**
 * A tenant's risk limits: what automation may do on its own, what a human may approve. One document
 * per tenant, always there.
 */
import { Type, type Static } from 'typebox';
import { dryRun } from './contract.ts';
import { documentContracts } from './document-contracts.ts';
import { effectiveTrials } from './effective-trial.ts';
import { Slug, strict } from './fields.ts';
import { ofTenant, tenantPath, type TenantAddress } from './tenant-document.ts';
import { BusinessHours, businessHoursKey } from './weekly-hours.ts';

const limits = {
  max_cost_impact_auto: Type.Number({
    minimum: 0,
    description: 'Cost impact up to which automation acts on its own',
  }),
  max_cost_impact_approval: Type.Number({
    minimum: 0,
    description: 'Cost impact up to which a human may approve',
  }),
  max_resource_scaling: Type.Number({
    minimum: 1,
    description: 'Largest factor by which a resource may be scaled',
  }),
  approval_timeout_minutes: Type.Integer({
    minimum: 1,
    maximum: 10_080,
    description: 'How long an approval is waited for',
  }),
  require_approval_for_high_risk: Type.Boolean({
    description: 'High-risk actions always ask a human',
  }),
  auto_approve_rollbacks: Type.Boolean({ description: 'Rollbacks need no approval' }),
  automation_enabled: Type.Boolean({ description: 'Automation may act at all' }),
  business_hours_only: Type.Boolean({ description: 'Automation acts in business hours only' }),
  max_concurrent_automations: Type.Integer({
    minimum: 0,
    maximum: 1000,
    description: 'How many automations may run at once',
  }),
};
const RiskLimits = Type.Object(limits, {
  ...strict,
  title: 'RiskLimits',
  description: 'What automation may do on its own, and what a human may approve',
});
export type RiskLimits = Static<typeof RiskLimits>;
/** The keys of an override that Strata itself reads. */
export const overrideNames: readonly string[] = [...Object.keys(limits), businessHoursKey];

/**
 * Service type → what holds for it instead. May hold anything; the names of risk limits keep their
 * types and bounds.
 */
const ServiceOverrides = Type.Record(
  Slug,
  Type.Partial(Type.Object({ ...limits, [businessHoursKey]: BusinessHours }), {
    additionalProperties: true,
  }),
  {
    ...strict,
    title: 'ServiceOverrides',
    description: 'Service type to what holds for it instead',
  },
);

export const RiskConfig = Type.Object(
  { global_settings: RiskLimits, service_overrides: ServiceOverrides },
  {
    ...strict,
    title: 'RiskConfig',
    description: "A tenant's risk limits: the layer `tenant_risk`",
  },
);
export type RiskConfig = Static<typeof RiskConfig>;

/**
 * The settings that are the process's risk limits: every limit has one, of its name with `default_`
 * before it.
 */
export type RiskSettings = {
  readonly [Name in keyof RiskLimits as `default_${Name}`]: RiskLimits[Name];
};

/**
 * The process's risk limits: what a new tenant starts with, and the layer `env` of every effective
 * configuration.
 */
export const riskDefaults = (settings: RiskSettings): RiskLimits => ({
  max_cost_impact_auto: settings.default_max_cost_impact_auto,
  max_cost_impact_approval: settings.default_max_cost_impact_approval,
  max_resource_scaling: settings.default_max_resource_scaling,
  approval_timeout_minutes: settings.default_approval_timeout_minutes,
  require_approval_for_high_risk: settings.default_require_approval_for_high_risk,
  auto_approve_rollbacks: settings.default_auto_approve_rollbacks,
  automation_enabled: settings.default_automation_enabled,
  business_hours_only: settings.default_business_hours_only,
  max_concurrent_automations: settings.default_max_concurrent_automations,
});

export const riskKey = ({ tenant_id }: TenantAddress): string => `risk_config_${tenant_id}`;

const risk = documentContracts({
  ...ofTenant,
  trial: { ...dryRun, ...effectiveTrials.risk },
  title: "the tenant's risk limits",
  url: '/tenants/{tenant_id}/config/risk',
  permanent: true,
  path: tenantPath,
  document: RiskConfig,
  body: Type.Object(
    {
      global_settings: Type.Optional(
        Type.Partial(RiskLimits, {
          ...strict,
          description: 'The limits to set; the defaults fill in what is not named',
          examples: [{ max_cost_impact_auto: 40, max_resource_scaling: 3 }],
        }),
      ),
      service_overrides: Type.Optional(ServiceOverrides),
    },
    { ...strict, title: 'RiskConfigBody', description: 'Risk limits, as they are written' },
  ),
  key: riskKey,
});

export const riskContracts = {
  'tenant-config.risk.get': risk.get,
  'tenant-config.risk.put': risk.put,
  'tenant-config.risk.patch': risk.patch,
} as const;
