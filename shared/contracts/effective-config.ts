/**
 * Effective configurations: what holds for an agent on a service after the layers are merged, and
 * why.
 */
import { Type, type Static } from 'typebox';
import { Bound } from './bounds.ts';
import { BudgetInForce } from './budgets.ts';
import { internalRead, readOfBoth } from './contract.ts';
import { valueReaders } from './roles.ts';
import { EffectiveChanges } from './effective-trial.ts';
import {
  ActorName,
  AgentType,
  Author,
  described,
  DescribedObject,
  Nullable,
  Optional,
  patterns,
  ServiceId,
  ServiceTypeName,
  StrictObject,
  TenantId,
  Timestamp,
  TitledObject,
  Uuid,
} from './fields.ts';
import { FreezeInForce } from './freezes.ts';
import { platformScope, tenantScope, type RevisionScope } from './revision-scopes.ts';
import { RolloutSide } from './rollout-sides.ts';

/**
 * The layers by name, the one that decides first at the front.
 * `services/config-resolver/rules/layers.ts` says what each holds.
 */
export const layerNames = [
  'service_instance',
  'agent',
  'tenant_risk',
  'service_type',
  'global',
  'env',
] as const;
export type LayerName = (typeof layerNames)[number];
const LayerName = Type.Enum(layerNames, {
  title: 'LayerName',
  description: 'The layers, the one that decides first at the front',
});
const Values = Type.Record(Type.String(), Type.Unknown(), {
  title: 'EffectiveValues',
  description: 'By key, what holds once the layers are merged and bounds have acted',
  examples: [{ max_cost_impact_auto: 50, automation_enabled: true }],
});
export const Revisions = TitledObject('Revisions', 'What it was read from', {
  tenant: Type.Integer({ description: "The tenant's revision", examples: [12] }),
  platform: Type.Integer({ description: "The platform's revision", examples: [3] }),
});
export const stale = Type.Literal(true, {
  description: 'From before an outage; REST says it in X-Config-Stale',
});

/** A bound that acted on a value, or warns of it. */
const acting = {
  by: Type.Enum(['type', 'platform', 'service_type', 'tenant'], {
    description:
      "Whose bound: the key's own type, the platform, a service type's limits, the tenant",
  }),
  rule: Bound,
  revision: Nullable(Type.Integer({ description: 'Of the document with the rule' })),
};

const AskedFor = DescribedObject('What the layers alone would say; null: nothing', {
  layer: LayerName,
  value: Type.Unknown({ description: 'What it says' }),
});

/** Who set a value, and where: of the change that set this key, not of the document's last one. */
const written = {
  source: Type.String({
    description: 'The cache key of the document that holds it; `env` for the environment',
  }),
  revision: Nullable(
    Type.Integer({ description: 'Of the change that set the value; null for the environment' }),
  ),
  updated_by: described(Nullable(Author), 'Who set the value; null for the environment'),
  updated_by_name: ActorName,
  updated_at: described(Nullable(Timestamp), 'When; null for the environment'),
  rollout: Type.Optional(
    described(Uuid, 'The rollout whose candidate it is, on whose side the tenant is'),
  ),
};

/** Not said where there are none. */
const sides = Optional.Array(RolloutSide, {
  description: 'The rollouts of the platform that are under way, and on which side the tenant is',
});

export const Explanation = TitledObject(
  'Explanation',
  'Which layer decided a value, and what it shadows',
  {
    value: Optional.Unknown({ description: 'Absent if a bound removed the key' }),
    layer: Type.Enum([...layerNames, 'bounds'], {
      description: '`bounds` where the value is that of a bound, and no layer holds it',
    }),
    ...written,
    path: Type.String({ description: 'JSON Pointer (RFC 6901) of the value inside the source' }),
    shadowed: Type.Array(
      StrictObject({
        layer: LayerName,
        value: Type.Unknown({ description: 'What it says' }),
        path: Type.String({ description: 'JSON Pointer (RFC 6901) inside its document' }),
        ...written,
      }),
      { description: 'Every other value that there is for the key, highest layer first' },
    ),
    enforced: Type.Optional(
      DescribedObject('The bound that decided, and what the layers alone would say', {
        ...acting,
        asked: Nullable(AskedFor),
      }),
    ),
    warned: Optional.Array(StrictObject(acting), {
      description: 'Bounds in the mode `warn` that the value is outside of',
    }),
  },
);

/** The parameters that say what a configuration is for: each names a layer, and part of another. */
export const addressFields = ['agent_type', 'service_id', 'service_type'] as const;
export type AddressField = (typeof addressFields)[number];
/** What a message calls them. */
export const addressTitles: Readonly<Record<AddressField, string>> = {
  agent_type: 'agent',
  service_id: 'service',
  service_type: 'service type',
};
export const address = {
  agent_type: Type.Optional(AgentType),
  service_id: Type.Optional(ServiceId),
  service_type: Type.Optional(ServiceTypeName),
};

const Address = StrictObject(address);
export type Address = Static<typeof Address>;

/**
 * The parameters among others that say what a configuration is for: those of an intent say what it
 * touches.
 */
export function addressOf(params: Address): Address {
  const { agent_type, service_id, service_type } = params;
  return {
    ...(agent_type !== undefined && { agent_type }),
    ...(service_id !== undefined && { service_id }),
    ...(service_type !== undefined && { service_type }),
  };
}

/**
 * By key a text that is another one for every value. Values may be long, and whoever only compares
 * them needs no more.
 */
export const Digests = Type.Record(Type.String(), Type.String());
export type Digests = Static<typeof Digests>;

const path = { tenant_id: TenantId };
const query = {
  ...address,
  strict: Optional.Boolean({
    description: 'Answer 404 for an unknown name, with the nearest ones',
  }),
  explain: Optional.Boolean({
    description: 'Explain for every key which layer decided it, and what it shadows',
  }),
  as_of: Optional.String({
    examples: ['12'],
    pattern: patterns.revisionOrTime,
    description:
      'A revision of the tenant or a timestamp: the layers and bounds at that point, without the environment, and without platform entries that have become private',
  }),
};

/** An effective configuration is read from both: platform changes reach every tenant's. */
const effectiveScopes = (tenantId: string): RevisionScope[] => [
  tenantScope(tenantId),
  platformScope,
];

export const effectiveConfigContracts = {
  'config-resolver.resolve': readOfBoth({
    summary: 'Effective configuration: all layers merged',
    response: 'effective',
    rest: 'GET /tenants/{tenant_id}/config/effective',
    access: { level: 'tenant', roles: valueReaders, services: true },
    keyScope: 'config:read',
    narrow: ['service_ids', 'agent_types'],
    path,
    query,
    result: TitledObject('EffectiveConfiguration', 'What holds for an agent on a service', {
      tenant_id: TenantId,
      agent_type: Nullable(Type.String({ description: 'As it was asked for' })),
      service_type: Nullable(
        Type.String({ description: "As it was asked for, or the service instance's" }),
      ),
      service_id: Nullable(Type.String({ description: 'As it was asked for' })),
      revision: Revisions,
      as_of: Type.Optional(
        DescribedObject('Where the question has `as_of`', {
          at: described(Nullable(Timestamp), 'The moment; null for a revision to come'),
          now: Type.Array(LayerName, {
            description: 'The layers without a history, which are answered as they are now',
          }),
          withheld: Optional.Literal(true, {
            description:
              'Something of the platform is missing, withdrawn since or purged: what the values were then is not known from this answer',
          }),
        }),
      ),
      rollouts: sides,
      unknown: Type.Array(Type.Enum(addressFields), {
        description: 'The parameters that name nothing: their layers are missing',
      }),
      values: Values,
      enforced: Type.Array(Type.String(), {
        description: 'The keys whose value a bound decided, or removed',
      }),
      explain: Type.Optional(
        Type.Record(Type.String(), Explanation, {
          description: 'By key, where the question has `explain`',
        }),
      ),
      over_time: Type.Optional(
        TitledObject(
          'LimitsOverTime',
          'Where the question has `explain`: budgets and freezes that are about what acts there. Absent if there are none',
          {
            budgets: Type.Array(BudgetInForce, { description: "The platform's first" }),
            freezes: Type.Array(FreezeInForce, { description: "The platform's first" }),
            project_id: Nullable(Type.String({ description: "The service instance's project" })),
            environment: Optional.String({
              description: "The project's environment, if it has one",
            }),
          },
        ),
      ),
      environment: Type.String({
        description:
          'Fingerprint of the `env` layer that was merged. REST has it in the entity tag alone',
      }),
      stale: Type.Optional(stale),
    }),
    cache: {
      cache: 'dynamic_config_service',
      key: (params) =>
        [
          'effective',
          params.tenant_id,
          params.agent_type ?? '',
          params.service_type ?? '',
          params.service_id ?? '',
          params.explain ? 'explain' : '',
          params.as_of ?? '',
          params.strict ? 'strict' : '',
        ].join('|'),
      revisionScopes: ({ tenant_id }) => effectiveScopes(tenant_id),
    },
  }),
  'config-resolver.preview': internalRead({
    summary: 'What a document that is not written yet would make of an effective configuration',
    path,
    query: address,
    body: StrictObject({
      config_type: Type.Enum(['tenant_risk_config', 'agent_config', 'service_config']),
      resource_id: Type.String(),
      before: Type.Unknown({ description: 'The document as it is; null: there is none' }),
      after: Type.Unknown({ description: 'As it would be' }),
    }),
    result: StrictObject({ effective: EffectiveChanges }),
  }),
  'config-resolver.digests': internalRead({
    summary: 'What several contexts of a tenant are at one moment, as digests',
    path,
    query: {
      contexts: Type.Array(Address, { minItems: 1, maxItems: 1000 }),
      min_revision: Type.String({
        pattern: '^[0-9]{1,15}\\.[0-9]{1,15}$',
        description: 'By no older layers of tenant and platform',
      }),
    },
    result: StrictObject({
      revision: Revisions,
      rollouts: sides,
      environment: Type.String(),
      contexts: Type.Array(
        StrictObject({
          digests: Type.Optional(Digests),
          problem: Type.Optional(StrictObject({ path: Type.String(), message: Type.String() })),
        }),
        { description: 'As they were asked for: digests, or why there is no such context' },
      ),
    }),
  }),
  'config-resolver.past-digests': internalRead({
    summary: 'What a context was at revisions of tenant and platform, as digests',
    path,
    query: {
      ...address,
      tenant: Type.Integer({ minimum: 0 }),
      platform: Type.Integer({ minimum: 0 }),
    },
    result: StrictObject({
      states: Nullable(
        Type.Array(Digests, {
          description:
            'One for each environment of the last minutes. Null where it cannot be known any more',
        }),
      ),
    }),
  }),
  'config-resolver.configurations': readOfBoth({
    summary: "Effective configuration of every agent type of the caller's tenant",
    rest: 'GET /configurations/',
    access: { level: 'tenant', roles: valueReaders, services: true },
    keyScope: 'config:read',
    query: { tenant_id: Type.Optional(described(Uuid, "The caller's own tenant, by its id")) },
    result: TitledObject('Configurations', 'The effective values of every agent type', {
      tenant_id: TenantId,
      revision: Revisions,
      rollouts: sides,
      configurations: Type.Record(Type.String(), Values, {
        description: 'Effective values by agent type',
      }),
      stale: Type.Optional(stale),
    }),
    cache: {
      cache: 'dynamic_config_service',
      key: ({ tenant_id = '' }) => `configurations|${tenant_id}`,
      revisionScopes: ({ tenant_id = '' }) => effectiveScopes(tenant_id),
    },
  }),
} as const;
