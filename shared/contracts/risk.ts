/**
 * A tenant's risk limits: what automation may do on its own, what a human may approve. One document
 * per tenant, always there.
 */
import { Type, type Static } from 'typebox';
import { dryRun } from './contract.ts';
import { documentContracts } from './document-contracts.ts';
import { effectiveTrials } from './effective-trial.ts';
import { Optional, Slug, strict, TitledObject } from './fields.ts';
import { ofTenant, tenantPath, type TenantAddress } from './tenant-document.ts';
import { temporary } from './temporary-changes.ts';
import { BusinessHours, businessHoursKey } from './weekly-hours.ts';

/** `denied`: those that say `deny`. */
const recordings = ['all', 'denied', 'none'] as const;

/**
 * One that is new is `Type.Optional`: documents of tenants from before do not have it, and have
 * what the environment says instead.
 */
export const limitSchemas = {
  max_cost_impact_auto: Type.Number({
    minimum: 0,
    description: 'Maximum cost impact at which automation acts without approval',
  }),
  max_cost_impact_approval: Type.Number({
    minimum: 0,
    description: 'Maximum cost impact that a human may approve',
  }),
  max_resource_scaling: Type.Number({
    minimum: 1,
    description: 'Maximum factor by which a resource may be scaled',
  }),
  approval_timeout_minutes: Type.Integer({
    minimum: 1,
    maximum: 10_080,
    description: 'Minutes after which a pending approval expires',
  }),
  require_approval_for_high_risk: Type.Boolean({
    description: 'High-risk actions always require approval',
  }),
  auto_approve_rollbacks: Type.Boolean({ description: 'Rollbacks require no approval' }),
  automation_enabled: Type.Boolean({ description: 'Whether automation may act at all' }),
  business_hours_only: Type.Boolean({ description: 'Automation acts only during business hours' }),
  max_concurrent_automations: Type.Integer({
    minimum: 0,
    maximum: 1000,
    description: 'Maximum automations that run at once',
  }),
  record_decisions: Optional.Enum(recordings, {
    type: 'string',
    maxLength: 10,
    description: 'Which decisions of `decide` are recorded for later replay',
  }),
};
const RiskLimits = TitledObject(
  'RiskLimits',
  'What automation may do on its own, and what a human may approve',
  limitSchemas,
);
export type RiskLimits = Static<typeof RiskLimits>;
export type Limits = Required<RiskLimits>;
type LimitName = keyof Limits;
export const limitNames = Object.keys(limitSchemas) as LimitName[];
/** The keys of an override that Strata itself reads. */
export const overrideNames: readonly string[] = [...limitNames, businessHoursKey];

/** What the settings `default_<limit>` are by default. */
export const limitDefaults: Limits = {
  max_cost_impact_auto: 15,
  max_cost_impact_approval: 50,
  max_resource_scaling: 3,
  approval_timeout_minutes: 30,
  require_approval_for_high_risk: true,
  auto_approve_rollbacks: true,
  automation_enabled: true,
  business_hours_only: false,
  max_concurrent_automations: 5,
  record_decisions: 'none',
};

/**
 * The limits that decide whether automation may act, in the order in which they do; their rules are
 * in `services/config-resolver/rules/decide.ts`.
 */
export const decidingLimits = [
  'automation_enabled',
  'business_hours_only',
  'maintenance_windows_only',
  'max_resource_scaling',
  'max_cost_impact_approval',
  'auto_approve_rollbacks',
  'require_approval_for_high_risk',
  'max_cost_impact_auto',
] as const satisfies readonly (LimitName | 'maintenance_windows_only')[];

/**
 * In which direction a limit can only deny automation more: `lower`, or the value of a switch; null
 * where neither does.
 */
export const saferLimits = {
  max_cost_impact_auto: 'lower',
  max_cost_impact_approval: 'lower',
  max_resource_scaling: 'lower',
  approval_timeout_minutes: null,
  require_approval_for_high_risk: true,
  auto_approve_rollbacks: false,
  automation_enabled: false,
  business_hours_only: true,
  max_concurrent_automations: 'lower',
  record_decisions: null,
} as const satisfies Readonly<Record<LimitName, 'lower' | boolean | null>>;

/**
 * Service type → what holds for it instead. May hold anything; the names of risk limits keep their
 * types and bounds.
 */
const ServiceOverrides = Type.Record(
  Slug,
  Type.Partial(Type.Object({ ...limitSchemas, [businessHoursKey]: BusinessHours }), {
    additionalProperties: true,
  }),
  {
    ...strict,
    title: 'ServiceOverrides',
    description: 'Service type to what holds for it instead',
  },
);

export const RiskConfig = TitledObject(
  'RiskConfig',
  "A tenant's risk limits: the layer `tenant_risk`",
  { global_settings: RiskLimits, service_overrides: ServiceOverrides },
);
export type RiskConfig = Static<typeof RiskConfig>;

/**
 * The process's risk limits: every limit has a setting, of its name with `default_` before it. They
 * are what a new tenant starts with, and the layer `env` of every effective configuration.
 */
export type RiskSettings = {
  readonly [Name in LimitName as `default_${Name}`]: Limits[Name];
};

export const riskDefaults = (settings: RiskSettings): Limits =>
  Object.fromEntries(
    limitNames.map((name) => [name, settings[`default_${name}`]]),
  ) as unknown as Limits;

export const riskKey = ({ tenant_id }: TenantAddress): string => `risk_config_${tenant_id}`;

const risk = documentContracts({
  ...ofTenant,
  trial: { ...dryRun, ...effectiveTrials.risk, ...temporary },
  title: "the tenant's risk limits",
  url: '/tenants/{tenant_id}/config/risk',
  permanent: true,
  path: tenantPath,
  document: RiskConfig,
  body: TitledObject('RiskConfigBody', 'Risk limits, as they are written', {
    global_settings: Type.Optional(
      Type.Partial(RiskLimits, {
        ...strict,
        description: 'The limits to set; the defaults fill in what is not named',
        examples: [{ max_cost_impact_auto: 40, max_resource_scaling: 3 }],
      }),
    ),
    service_overrides: Type.Optional(ServiceOverrides),
  }),
  key: riskKey,
});

export const riskContracts = {
  'tenant-config.risk.get': risk.get,
  'tenant-config.risk.put': risk.put,
  'tenant-config.risk.patch': risk.patch,
} as const;
