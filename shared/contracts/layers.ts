/**
 * What config-resolver asks the two owners of configuration for: the stored layers of one effective
 * configuration.
 */
import { Type, type Static, type TSchema } from 'typebox';
import { AgentConfig } from './agents.ts';
import { Bounds } from './bounds.ts';
import { Budgets } from './budgets.ts';
import { internalRead, read } from './contract.ts';
import { Resource } from './envelopes.ts';
import {
  ActorName,
  Author,
  described,
  FreeForm,
  Identifier,
  Nullable,
  Optional,
  Slug,
  StrictObject,
  Timestamp,
  Uuid,
} from './fields.ts';
import { Freezes } from './freezes.ts';
import { GlobalEntry } from './global-entries.ts';
import { ProjectConfig } from './projects.ts';
import { RiskConfig } from './risk.ts';
import { RolloutInLayers } from './rollout-sides.ts';
import { ServiceInstance } from './service-instances.ts';
import { ServiceType } from './service-types.ts';
import { platformScope, tenantScope } from './revision-scopes.ts';
import { tenantPath } from './tenant-document.ts';

/** Null where nothing is stored. */
const Layer = <Document extends TSchema>(document: Document) => Nullable(Resource(document));

/**
 * Limits over time are no layers: they are read with them, at the same revision. Not said by a node
 * of an earlier release, which knows none.
 */
const overTime = {
  budgets: Type.Optional(Layer(Budgets)),
  freezes: Type.Optional(Layer(Freezes)),
};

/** Whose candidates some tenants have instead of these layers. None from a node of an earlier release. */
const underWay = { rollouts: Optional.Array(RolloutInLayers) };

/** What limits over time take from a project. */
const ProjectLimits = Type.Pick(ProjectConfig, [
  'project_id',
  'environment',
  'budget',
  'enforce_budget',
]);
export type ProjectLimits = Static<typeof ProjectLimits>;

/** Values of layers, by where they stand, as of a revision. */
const places = {
  revision: Type.Integer({ minimum: 0 }),
  places: Type.Array(
    StrictObject({ config_type: Type.String(), resource_id: Type.String(), path: Type.String() }),
    { description: 'Documents as the history names them, and a JSON Pointer in each' },
  ),
};
const author = {
  revision: Type.Integer(),
  updated_by: Author,
  updated_at: Timestamp,
};
const authorsDescription = 'In their order; null where the history does not say';

/** What a document says of some keys, and nothing else of it; null: nothing. */
const Said = Nullable(FreeForm);

/** The platform's layers and bounds, whole or cut down to some keys. */
export const PlatformLayers = StrictObject({
  entries: Type.Array(
    StrictObject({
      document: StrictObject({ config_key: Type.String(), config_value: Type.Unknown() }),
    }),
  ),
  service_types: Type.Record(
    Type.String(),
    StrictObject({
      document: StrictObject({
        default_settings: FreeForm,
        scaling_limits: ServiceType.properties.scaling_limits,
        monitoring_defaults: FreeForm,
      }),
      revision: Type.Integer(),
    }),
    { description: 'By name, the active ones' },
  ),
  bounds: Nullable(StrictObject({ document: Bounds, revision: Type.Integer() })),
  ...underWay,
});
export type PlatformLayers = Static<typeof PlatformLayers>;

/** What one tenant's documents say of some keys. */
export const TenantSaid = StrictObject({
  tenant_id: Uuid,
  tenant_name: Type.String(),
  changed_at: Nullable(Timestamp),
  global_settings: Said,
  service_overrides: Type.Record(Type.String(), FreeForm),
  bounds: Nullable(Bounds),
  agents: Type.Array(StrictObject({ agent_type: Type.String(), values: Said })),
  services: Type.Array(
    StrictObject({ service_id: Type.String(), service_type: Type.String(), values: Said }),
  ),
});
export type TenantSaid = Static<typeof TenantSaid>;
const names = <Name extends TSchema>(name: Name) => Optional.Array(name, { maxItems: 1000 });

export const layerContracts = {
  'tenant-config.layers.now': read({
    summary:
      "The tenant's layers of several effective configurations as they are, from one snapshot",
    access: { level: 'internal' },
    path: tenantPath,
    query: { agent_types: names(Slug), service_ids: names(Identifier) },
    result: StrictObject({
      revision: Type.Integer(),
      platform_revision: Type.Integer({ description: "The platform's, in the same snapshot" }),
      risk: Layer(RiskConfig),
      agents: Type.Array(Resource(AgentConfig)),
      services: Type.Array(Resource(ServiceInstance)),
      bounds: Layer(Bounds),
      ...overTime,
      projects: Optional.Array(Resource(ProjectLimits), { description: 'Those of the services' }),
      stale: Optional.Literal(true),
    }),
    cache: {
      cache: 'dynamic_config_service',
      key: ({ tenant_id, agent_types, service_ids }) =>
        `layers|${tenant_id}|${JSON.stringify([agent_types, service_ids])}`,
      revisionScopes: ({ tenant_id }) => [tenantScope(tenant_id)],
    },
  }),
  'tenant-config.projects.enforced': read({
    summary: "The tenant's projects whose budget is enforced",
    access: { level: 'internal' },
    path: tenantPath,
    result: StrictObject({
      items: Type.Array(Resource(ProjectLimits), { description: 'By id' }),
      stale: Optional.Literal(true),
    }),
    cache: {
      cache: 'dynamic_config_service',
      key: ({ tenant_id }) => `enforced_projects|${tenant_id}`,
      revisionScopes: ({ tenant_id }) => [tenantScope(tenant_id)],
    },
  }),
  'tenant-config.moment': internalRead({
    summary: 'The revisions of tenants and the platform at one moment',
    query: { tenant_ids: Type.Array(Uuid, { maxItems: 2000 }) },
    result: StrictObject({
      at: Type.Number({ description: "By the database's clock, in milliseconds since 1970" }),
      platform: Type.Integer(),
      platform_changed_at: Type.Number({ description: 'When the platform got its revision' }),
      tenants: Type.Record(Type.String(), Type.Integer()),
    }),
  }),
  'global-config.layers.now': read({
    summary: 'The platform layers of all effective configurations as they are, from one snapshot',
    access: { level: 'internal' },
    result: StrictObject({
      revision: Type.Integer(),
      entries: Type.Array(Resource(GlobalEntry)),
      service_types: Type.Record(Type.String(), Resource(ServiceType)),
      bounds: Layer(Bounds),
      ...overTime,
      ...underWay,
      stale: Optional.Literal(true),
    }),
    cache: {
      cache: 'dynamic_config_service',
      key: () => 'layers|platform',
      revisionScopes: () => [platformScope],
    },
  }),
  'tenant-config.layers': internalRead({
    summary: "The tenant's layers of one effective configuration, from one snapshot",
    path: tenantPath,
    query: {
      agent_type: Type.Optional(Slug),
      service_id: Type.Optional(Identifier),
      as_of: Type.Optional(Type.Union([Type.Integer({ minimum: 0 }), Timestamp])),
    },
    result: StrictObject({
      revision: Type.Integer(),
      newest: Type.Integer({
        description:
          "The tenant's revision in the same snapshot, also where older layers are answered",
      }),
      at: Nullable({
        ...Timestamp,
        description:
          'The moment that `as_of` names, for a revision that of its write; null for now, and for a revision to come',
      }),
      risk: Layer(RiskConfig),
      agent: Layer(AgentConfig),
      service: Layer(ServiceInstance),
      bounds: Layer(Bounds),
      ...overTime,
      project: Type.Optional(described(Layer(ProjectLimits), 'Of the service; null: it has none')),
    }),
  }),
  'tenant-config.layers.then': internalRead({
    summary: "The tenant's layers of several effective configurations as they were",
    path: tenantPath,
    query: {
      as_of: Type.Integer({ minimum: 0 }),
      agent_types: names(Slug),
      service_ids: names(Identifier),
      /** Beside those of the services. */
      project_ids: names(Identifier),
    },
    result: StrictObject({
      revision: Type.Integer(),
      risk: Layer(RiskConfig),
      agents: Type.Array(Resource(AgentConfig)),
      services: Type.Array(Resource(ServiceInstance)),
      bounds: Layer(Bounds),
      ...overTime,
      projects: Type.Array(Resource(ProjectLimits)),
    }),
  }),
  'tenant-config.layers.by-agent': internalRead({
    summary: "The tenant's layers below each of its agent configurations, from one snapshot",
    path: tenantPath,
    query: { as_of: Optional.Integer({ minimum: 0 }) },
    result: StrictObject({
      revision: Type.Integer(),
      newest: Type.Integer(),
      risk: Layer(RiskConfig),
      agents: Type.Array(Resource(AgentConfig), { description: 'By agent type' }),
      bounds: Layer(Bounds),
    }),
  }),
  'tenant-config.layers.authors': internalRead({
    summary: "Who set the values at some places of the tenant's layers",
    path: tenantPath,
    body: StrictObject(places),
    result: StrictObject({
      authors: Type.Array(Nullable(StrictObject({ ...author, updated_by_name: ActorName })), {
        description: authorsDescription,
      }),
    }),
  }),
  'tenant-config.layers.places': internalRead({
    summary: 'Names of tenants, and what limits over time match of their instances',
    body: StrictObject({
      tenant_ids: Type.Array(Uuid, { maxItems: 10_000 }),
      services: Type.Array(StrictObject({ tenant_id: Uuid, service_id: Type.String() }), {
        maxItems: 10_000,
      }),
    }),
    result: StrictObject({
      names: Type.Record(Type.String(), Type.String(), { description: 'By id of tenants' }),
      services: Type.Array(
        StrictObject({
          tenant_id: Uuid,
          service_id: Type.String(),
          service_type: Type.String(),
          project_id: Optional.String(),
          environment: Optional.String(),
        }),
      ),
    }),
  }),
  'tenant-config.layers.nearest': internalRead({
    summary: "The tenant's names that are nearest to these, which it does not have",
    path: tenantPath,
    query: { agent_type: Type.Optional(Slug), service_id: Type.Optional(Identifier) },
    result: StrictObject({
      agent_type: Optional.Array(Type.String()),
      service_id: Optional.Array(Type.String()),
    }),
  }),
  'tenant-config.layers.mentions': internalRead({
    summary: 'What the documents of tenants say of some keys, by tenant id, a page at a time',
    body: StrictObject({
      keys: Type.Array(Type.String()),
      after: Type.Optional(Uuid),
      tenant_id: Type.Optional(Uuid),
    }),
    result: StrictObject({
      tenants: Type.Array(TenantSaid),
      next: Nullable(Uuid),
    }),
  }),
  'global-config.layers.authors': internalRead({
    summary: "Who set the values at some places of the platform's layers",
    body: StrictObject(places),
    result: StrictObject({
      authors: Type.Array(Nullable(StrictObject(author)), {
        description: authorsDescription,
      }),
    }),
  }),
  'global-config.layers': internalRead({
    summary: 'The platform layers of one effective configuration, from one snapshot',
    query: {
      service_types: Optional.Array(Slug),
      tenant_id: Type.Optional(Uuid),
      as_of: Type.Optional(Type.Union([Type.Integer({ minimum: 0 }), Timestamp])),
      with_withdrawn: Optional.Boolean({
        description: 'Also past entries that were made private since',
      }),
    },
    result: StrictObject({
      revision: Type.Integer(),
      newest: Type.Integer({
        description:
          "The platform's revision in the same snapshot, also where older layers are answered",
      }),
      tenant_revision: Nullable(
        Type.Integer({ description: 'Of `tenant_id`, in the same snapshot' }),
      ),
      // Not said by a node of an earlier release.
      withheld: Optional.Boolean({
        description:
          'Whether something that was there at that time is missing: withdrawn since, or purged',
      }),
      entries: Type.Array(Resource(GlobalEntry)),
      service_types: Type.Record(Type.String(), Resource(ServiceType)),
      bounds: Layer(Bounds),
      ...overTime,
      ...underWay,
    }),
  }),
} as const;
