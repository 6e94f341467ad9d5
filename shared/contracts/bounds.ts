/**
 * Bounds: what the platform, or a tenant's administrator, wants to hold of effective values
 * whatever the layers say. One document each, key by key: `bounds_platform`, and
 * `bounds_{tenant_id}`, which keeps to the platform's.
 */
import { Type, type Static } from 'typebox';
import { dryRun } from './contract.ts';
import { listing } from './envelopes.ts';
import { documentsOfBoth } from './documents-of-both.ts';
import { Nullable, Optional, ServiceTypeName, strict, TenantId, TitledObject } from './fields.ts';
import { impactQuery } from './impact.ts';
import { platformAdmins } from './platform-document.ts';
import { tenantPath, tenantReaders } from './tenant-document.ts';

/** The types of JSON that a bound can ask for. */
export const valueTypes = ['boolean', 'integer', 'number', 'string', 'array', 'object'] as const;
export type ValueType = (typeof valueTypes)[number];

const limits = {
  const: Optional.Unknown({ description: 'The value, also where no layer holds the key' }),
  minimum: Optional.Number({ description: 'Minimum: smaller numbers are raised to it' }),
  maximum: Optional.Number({ description: 'Maximum: larger numbers are lowered to it' }),
  enum: Optional.Array(Type.Unknown(), {
    minItems: 1,
    maxItems: 100,
    description: 'Allowed values; the first is the fallback if no layer holds one of them',
  }),
  type: Optional.Enum(valueTypes, { description: 'The type of JSON that values must have' }),
};
export const Bound = TitledObject('Bound', 'Rule for an effective value', {
  ...limits,
  mode: Optional.Enum(['enforce', 'warn'], {
    description: '`warn` changes no value, and reports those outside; `enforce` by default',
  }),
  service_types: Optional.Array(ServiceTypeName, {
    minItems: 1,
    maxItems: 100,
    uniqueItems: true,
    description: 'Only for these service types',
  }),
  reason: Optional.String({ maxLength: 500, description: 'Reason, for people' }),
});
export type Bound = Static<typeof Bound>;

const Key = Type.String({
  pattern: '^[^\\u0000-\\u001f\\u007f]{1,128}$',
  description: 'A key of effective configurations',
});
/** By key of the effective configuration. */
export const Bounds = Type.Record(Key, Bound, {
  ...strict,
  maxProperties: 500,
  title: 'Bounds',
  description: 'A key of effective configurations to what its value has to be',
  examples: [{ max_cost_impact_auto: { maximum: 500, reason: 'Budget of the quarter' } }],
});
export type Bounds = Static<typeof Bounds>;

const bounds = documentsOfBoth(
  'bounds',
  { document: Bounds, trial: { ...dryRun, ...impactQuery } },
  { document: Bounds, trial: { ...dryRun, ...impactQuery } },
);
export const { platformKey: platformBoundsKey, tenantKey: tenantBoundsKey } = bounds;

/** A stored value that a bound is against, and so is held within it when it is read. */
const Violation = TitledObject('BoundViolation', 'A stored value that violates a bound', {
  tenant_id: TenantId,
  tenant_name: Type.String({ description: "The tenant's name" }),
  config_type: Type.Enum(
    ['tenant_risk_config', 'agent_config', 'service_config', 'bounds_config'],
    { description: 'Kind of the document that holds the value' },
  ),
  resource_id: Type.String({ description: "The document's id, such as an agent type" }),
  source: Type.String({ description: "The document's cache key" }),
  path: Type.String({ description: 'JSON Pointer (RFC 6901) into the document' }),
  key: Type.String({ description: 'The key of effective configurations' }),
  service_type: Nullable(
    Type.String({ description: 'What the value is for; null: every service type' }),
  ),
  value: Optional.Unknown({ description: 'Absent if it is large' }),
  by: Type.Enum(['platform', 'service_type', 'tenant'], { description: 'Whose rule it is' }),
  rule: Bound,
  revision: Type.Union([Type.Integer(), Type.Null()], {
    description: 'Of the document with the rule',
  }),
  problem: Type.Enum(['outside', 'contradicts'], {
    description:
      '`outside`: the value is not what the rule allows. `contradicts`: it is a bound, and yields to the rule',
  }),
});
export type Violation = Static<typeof Violation>;

export const boundContracts = {
  ...bounds.ofPlatform,
  ...bounds.ofTenant,
  'tenant-config.bounds.violations': listing({
    summary:
      "Stored values of tenants that violate the platform's bounds or limits of service types",
    rest: 'GET /config/bounds/violations',
    access: platformAdmins,
    keyScope: 'platform:read',
    items: Violation,
  }),
  'tenant-config.bounds.violations.of-tenant': listing({
    summary: 'Stored values of the tenant that violate bounds',
    rest: 'GET /tenants/{tenant_id}/config/bounds/violations',
    access: tenantReaders,
    keyScope: 'config:read',
    path: tenantPath,
    items: Violation,
  }),
} as const;
