import { Type, type Static, type TObject, type TProperties, type TSchema } from 'typebox';
import {
  action,
  Change,
  dryRun,
  Page,
  page,
  platformScope,
  read,
  type RevisionScope,
  Resource,
  Slug,
  tenantScope,
  Timestamp,
  Uuid,
  write,
  Written,
  type ReadContract,
  type TenantRole,
  type WriteContract,
} from './contract.ts';
import { EffectiveNotifications, NotificationConfig } from './notification-config.ts';

const strict = { additionalProperties: false } as const;
const Identifier = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$',
  description: 'Letters, digits, . _ -',
});
const Text = Type.String({ minLength: 1, maxLength: 200 });
const Free = Type.Record(Type.String(), Type.Unknown());
const Instances = Type.Integer({ minimum: 0, maximum: 1_000_000 });

// ---------------------------------------------------------------- risk

export const riskSettings = {
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
/** Overrides may hold anything; the risk limits' own names keep their types and bounds. */
const ServiceOverrides = Type.Record(
  Slug,
  Type.Object(
    Object.fromEntries(
      Object.entries(riskSettings).map(([name, schema]) => [name, Type.Optional(schema)]),
    ),
    { additionalProperties: true },
  ),
  { additionalProperties: false },
);

export const RiskDocument = Type.Object(
  {
    global_settings: Type.Object(riskSettings, strict),
    service_overrides: ServiceOverrides,
  },
  strict,
);
const RiskBody = Type.Object(
  {
    global_settings: Type.Optional(Type.Partial(Type.Object(riskSettings, strict), strict)),
    service_overrides: Type.Optional(ServiceOverrides),
  },
  strict,
);

// ---------------------------------------------------------------- agents, services, projects

const agentFields = {
  default_region: Type.Optional(Text),
  default_zone: Type.Optional(Text),
  metrics_duration_minutes: Type.Optional(Type.Integer({ minimum: 1, maximum: 525_600 })),
  validation_timeout_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
  default_memory: Type.Optional(
    Type.String({ minLength: 1, maxLength: 64, description: 'Such as 512Mi' }),
  ),
  default_cpu: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  default_scaling: Type.Optional(
    Type.Object(
      { min_instances: Type.Optional(Instances), max_instances: Type.Optional(Instances) },
      strict,
    ),
  ),
  monitoring_thresholds: Type.Optional(Type.Record(Type.String(), Type.Number())),
  templates: Type.Optional(Free),
  tools: Type.Optional(Type.Array(Text, { maxItems: 200 })),
  custom: Type.Optional(Free),
};
export const AgentDocument = Type.Object({ agent_type: Slug, ...agentFields }, strict);
const AgentBody = Type.Object({ agent_type: Type.Optional(Slug), ...agentFields }, strict);

const serviceFields = {
  service_name: Type.Optional(Text),
  project_id: Type.Optional(Identifier),
  custom_thresholds: Type.Optional(Free),
  min_instances: Type.Optional(Instances),
  max_instances: Type.Optional(Instances),
  monitoring_enabled: Type.Optional(Type.Boolean()),
  automation_enabled: Type.Optional(Type.Boolean()),
  maintenance_windows: Type.Optional(
    Type.Array(
      Type.Object(
        {
          days: Type.Array(Type.Enum(['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']), {
            minItems: 1,
            uniqueItems: true,
          }),
          start: Type.String({ pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$', description: 'HH:MM' }),
          end: Type.String({ pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$', description: 'HH:MM' }),
          timezone: Type.String({
            minLength: 1,
            maxLength: 64,
            description: 'IANA name, such as Europe/Rome',
          }),
        },
        strict,
      ),
      { maxItems: 100 },
    ),
  ),
  notification_channels: Type.Optional(Type.Array(Text, { maxItems: 100 })),
};
export const ServiceDocument = Type.Object(
  { service_id: Identifier, service_type: Slug, ...serviceFields },
  strict,
);
const ServiceBody = Type.Object(
  { service_id: Type.Optional(Identifier), service_type: Type.Optional(Slug), ...serviceFields },
  strict,
);

const projectFields = {
  name: Type.Optional(Text),
  region: Type.Optional(Text),
  environment: Type.Optional(Text),
  service_account_reference: Type.Optional(Type.String({ minLength: 1, maxLength: 500 })),
  budget: Type.Optional(
    Type.Object(
      {
        amount: Type.Number({ minimum: 0 }),
        currency: Type.String({ pattern: '^[A-Z]{3}$', description: 'ISO 4217' }),
      },
      strict,
    ),
  ),
  labels: Type.Optional(Type.Record(Type.String(), Type.String({ maxLength: 500 }))),
  project_config: Type.Optional(Free),
};
export const ProjectDocument = Type.Object({ project_id: Identifier, ...projectFields }, strict);
const ProjectBody = Type.Object(
  { project_id: Type.Optional(Identifier), ...projectFields },
  strict,
);

// ---------------------------------------------------------------- the resources' endpoints

const tenantPath = { tenant_id: Uuid };
export const readers: TenantRole[] = ['tenant_admin', 'operator'];
const MergePatch = Type.Record(Type.String(), Type.Unknown());

type Keyed<Path extends TProperties> = (params: Static<TObject<Path>>) => string;
interface Verbs<Doc extends TSchema, Path extends TProperties, Body extends TSchema> {
  title: string;
  url: string;
  path: Path;
  document: Doc;
  body: Body;
  key: Keyed<Path>;
  writers?: TenantRole[];
}

/** GET, PUT and PATCH of one tenant resource under one cache key. */
function resource<
  const Name extends string,
  Doc extends TSchema,
  Path extends TProperties,
  Body extends TSchema,
>(
  name: Name,
  { title, url, path, document, body, key, writers = ['tenant_admin'] }: Verbs<Doc, Path, Body>,
) {
  const access = { level: 'tenant', roles: writers } as const;
  const drops = (params: Static<TObject<Path>>): string[] => [key(params)];
  const revisionScopes = (params: unknown): RevisionScope[] => [
    tenantScope((params as { tenant_id: string }).tenant_id),
  ];
  return {
    [`tenant-config.${name}.get`]: read({
      summary: `Read ${title}`,
      rest: `GET ${url}` as `GET /${string}`,
      access: { level: 'tenant', roles: readers, services: true },
      keyScope: 'config:read',
      path,
      result: Resource(document),
      response: 'resource',
      cache: {
        cache: 'configuration_service',
        key: key as never,
        revisionScopes: revisionScopes as never,
      },
    }),
    [`tenant-config.${name}.put`]: write({
      summary: `Replace ${title}`,
      rest: `PUT ${url}` as `PUT /${string}`,
      access,
      keyScope: 'config:write',
      path,
      query: dryRun,
      body,
      result: Written(document),
      drops,
    }),
    [`tenant-config.${name}.patch`]: write({
      summary: `Change parts of ${title} (JSON merge patch, RFC 7396)`,
      rest: `PATCH ${url}` as `PATCH /${string}`,
      access,
      keyScope: 'config:write',
      path,
      query: dryRun,
      body: MergePatch,
      result: Written(document),
      drops,
    }),
  } as unknown as {
    [K in `tenant-config.${Name}.get`]: ReadContract<Path, ReturnType<typeof Resource<Doc>>>;
  } & {
    [K in `tenant-config.${Name}.put`]: WriteContract<Path, Body, ReturnType<typeof Written<Doc>>>;
  } & {
    [K in `tenant-config.${Name}.patch`]: WriteContract<
      Path,
      typeof MergePatch,
      ReturnType<typeof Written<Doc>>
    >;
  };
}

/** DELETE lets the lower layers show through again. */
const removal = <Doc extends TSchema, Path extends TProperties>({
  title,
  url,
  path,
  document,
  key,
}: Omit<Verbs<Doc, Path, never>, 'body'>) =>
  write({
    summary: `Remove ${title}`,
    rest: `DELETE ${url}` as `DELETE /${string}`,
    access: { level: 'tenant', roles: ['tenant_admin'] },
    keyScope: 'config:write',
    path,
    query: dryRun,
    result: Written(document),
    drops: (params) => [key(params)],
  });

const listing = <Doc extends TSchema>(title: string, url: string, document: Doc) =>
  action({
    summary: `List ${title}`,
    rest: `GET ${url}` as `GET /${string}`,
    access: { level: 'tenant', roles: readers, services: true },
    keyScope: 'config:read',
    path: tenantPath,
    query: page,
    result: Page(document),
    response: 'list',
  });

const risk = {
  title: "the tenant's risk limits",
  url: '/tenants/{tenant_id}/config/risk',
  path: tenantPath,
  document: RiskDocument,
  body: RiskBody,
  key: ({ tenant_id }: { tenant_id: string }) => `risk_config_${tenant_id}`,
};
const agent = {
  title: "an agent type's defaults",
  url: '/tenants/{tenant_id}/config/agents/{agent_type}',
  path: { ...tenantPath, agent_type: Slug },
  document: AgentDocument,
  body: AgentBody,
  key: ({ tenant_id, agent_type }: { tenant_id: string; agent_type: string }) =>
    `agent_config_${tenant_id}_${agent_type}`,
};
const service = {
  title: "a service instance's overrides",
  url: '/tenants/{tenant_id}/services/{service_id}',
  path: { ...tenantPath, service_id: Identifier },
  document: ServiceDocument,
  body: ServiceBody,
  writers: ['tenant_admin', 'operator'] as TenantRole[],
  key: ({ tenant_id, service_id }: { tenant_id: string; service_id: string }) =>
    `service_instance_${tenant_id}_${service_id}`,
};
const project = {
  title: "a project's configuration",
  url: '/tenants/{tenant_id}/projects/{project_id}/config',
  path: { ...tenantPath, project_id: Identifier },
  document: ProjectDocument,
  body: ProjectBody,
  key: ({ tenant_id, project_id }: { tenant_id: string; project_id: string }) =>
    `project_config_${tenant_id}_${project_id}`,
};
const NullableNotificationConfig = Type.Union([NotificationConfig, Type.Null()]);
const notifications = {
  title: "the tenant's notification_config",
  url: '/tenants/{tenant_id}/config/notifications',
  path: tenantPath,
  document: NullableNotificationConfig,
  body: NullableNotificationConfig,
  key: ({ tenant_id }: { tenant_id: string }) => `notification_config_${tenant_id}`,
};

// ---------------------------------------------------------------- history

export const configTypes = [
  'tenant_risk_config',
  'agent_config',
  'service_config',
  'project_config',
  'notification_config',
] as const;
export type ConfigType = (typeof configTypes)[number];
export const historyActions = ['create', 'update', 'delete', 'rollback'] as const;
const ConfigTypeName = Type.Enum(configTypes);
const historyEntry = {
  revision: Type.Integer(),
  config_type: ConfigTypeName,
  resource_id: Type.String({
    description:
      'Agent type, service id or project id; the tenant id where there is one per tenant',
  }),
  action: Type.Enum(historyActions),
  changed_by: Type.String(),
  changed_at: Timestamp,
  reason: Type.Union([Type.String(), Type.Null()]),
  request_id: Type.Union([Type.String(), Type.Null()]),
  changes: Type.Array(Change),
};
export const HistoryEntry = Type.Object(historyEntry, strict);
const HistoryDetail = Type.Object(
  { ...historyEntry, before: Type.Unknown(), after: Type.Unknown() },
  strict,
);

// ---------------------------------------------------------------- tenants and members

export const roles = ['tenant_admin', 'operator', 'viewer'] as const;
const Roles = Type.Array(Type.Enum(roles), { minItems: 1, uniqueItems: true });
const Groups = Type.Array(Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$' }), {
  uniqueItems: true,
  maxItems: 100,
  description: 'Approver groups',
});
const Email = Type.String({ format: 'email', maxLength: 254 });
const Password = Type.String({
  maxLength: 1024,
  description: 'Initial password, used only where this creates the account',
});

export const Tenant = Type.Object(
  {
    id: Uuid,
    name: Type.String(),
    status: Type.Enum(['active', 'disabled']),
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  strict,
);
export const Member = Type.Object(
  {
    user_id: Uuid,
    email: Email,
    display_name: Type.Union([Type.String(), Type.Null()]),
    roles: Roles,
    groups: Groups,
    added_at: Timestamp,
  },
  strict,
);
export const Approver = Type.Object({ user_id: Uuid, email: Email }, strict);
/** What the gateway needs of a membership on every request. */
export const Membership = Type.Object(
  {
    tenant_id: Uuid,
    tenant_name: Type.String(),
    tenant_status: Type.Enum(['active', 'disabled']),
    roles: Roles,
    groups: Groups,
  },
  strict,
);

const admins = { level: 'tenant', roles: ['tenant_admin'] } as const;
/** Membership has revisions of its own, so that those of the configuration have no gaps. */
export const memberScope = (tenantId: string): RevisionScope => `members:${tenantId}`;
const memberPath = { ...tenantPath, user_id: Uuid };
export const memberKey = ({ tenant_id, user_id }: { tenant_id: string; user_id: string }): string =>
  `member_${tenant_id}_${user_id}`;

/** One stored layer of the effective configuration, or null where nothing is stored. */
const Layer = <T extends TSchema>(document: T) => Type.Union([Resource(document), Type.Null()]);
const effectiveParams = { agent_type: Type.Optional(Slug), service_id: Type.Optional(Identifier) };

export const tenantConfigContracts = {
  ...resource('risk', risk),
  ...resource('agents', agent),
  'tenant-config.agents.delete': removal(agent),
  'tenant-config.agents.list': listing(
    "the agent types' defaults",
    '/tenants/{tenant_id}/config/agents',
    AgentDocument,
  ),
  ...resource('services', service),
  'tenant-config.services.delete': removal(service),
  'tenant-config.services.list': listing(
    "the tenant's service instances",
    '/tenants/{tenant_id}/services',
    ServiceDocument,
  ),
  ...resource('projects', project),
  'tenant-config.projects.delete': removal(project),
  'tenant-config.projects.list': listing(
    "the tenant's projects",
    '/tenants/{tenant_id}/projects',
    ProjectDocument,
  ),
  ...resource('notifications', notifications),
  'tenant-config.notifications.effective': read({
    summary: 'notification_config with the process defaults and caps applied',
    rest: 'GET /tenants/{tenant_id}/config/notifications/effective',
    access: { level: 'tenant', roles: readers },
    keyScope: 'config:read',
    path: tenantPath,
    result: EffectiveNotifications,
  }),
  /** For the notifier: secrets open. */
  'tenant-config.notifications.open': action({
    summary: 'The effective notification_config with its secrets, for the notifier',
    access: { level: 'internal' },
    path: tenantPath,
    result: Type.Object({ config: EffectiveNotifications, revision: Type.Integer() }, strict),
  }),

  'tenant-config.history.list': action({
    summary: 'What changed, newest first',
    rest: 'GET /tenants/{tenant_id}/config/history',
    access: { level: 'tenant', roles: readers },
    keyScope: 'config:read',
    path: tenantPath,
    query: {
      config_type: Type.Optional(ConfigTypeName),
      resource_id: Type.Optional(Type.String({ maxLength: 200 })),
      ...page,
    },
    result: Page(HistoryEntry),
    response: 'list',
  }),
  'tenant-config.history.get': action({
    summary: 'One change with the document before and after',
    rest: 'GET /tenants/{tenant_id}/config/history/{revision}',
    access: { level: 'tenant', roles: readers },
    keyScope: 'config:read',
    path: { ...tenantPath, revision: Type.Integer({ minimum: 1 }) },
    result: HistoryDetail,
  }),
  'tenant-config.rollback': write({
    summary: 'Restore what a resource held right after a revision',
    rest: 'POST /tenants/{tenant_id}/config/rollback',
    access: admins,
    keyScope: 'config:write',
    path: tenantPath,
    query: dryRun,
    body: Type.Object(
      {
        revision: Type.Integer({ minimum: 1 }),
        reason: Type.Optional(Type.String({ maxLength: 500 })),
      },
      strict,
    ),
    result: Written(Type.Unknown()),
  }),

  'tenant-config.tenants.create': action({
    summary: 'Create a tenant with its first administrator',
    rest: 'POST /tenants',
    access: { level: 'platform_admin' },
    keyScope: 'platform:write',
    body: Type.Object(
      {
        name: Text,
        admin: Type.Object({ email: Email, password: Type.Optional(Password) }, strict),
      },
      strict,
    ),
    result: Type.Object(
      { ...Tenant.properties, admin: Type.Object({ user_id: Uuid, email: Email }, strict) },
      strict,
    ),
    response: 'created',
  }),
  'tenant-config.tenants.list': action({
    summary: 'List tenants',
    rest: 'GET /tenants',
    access: { level: 'platform_admin' },
    keyScope: 'platform:read',
    query: page,
    result: Page(Tenant),
    response: 'list',
  }),
  'tenant-config.tenants.get': action({
    summary: 'Read a tenant',
    rest: 'GET /tenants/{tenant_id}',
    access: { level: 'tenant_or_platform', roles, services: true },
    keyScope: 'config:read',
    path: tenantPath,
    result: Tenant,
  }),
  'tenant-config.tenants.patch': action({
    summary: 'Rename, disable or enable a tenant',
    rest: 'PATCH /tenants/{tenant_id}',
    access: { level: 'platform_admin' },
    keyScope: 'platform:write',
    path: tenantPath,
    body: Type.Object(
      {
        name: Type.Optional(Text),
        status: Type.Optional(Type.Enum(['active', 'disabled'])),
      },
      { ...strict, minProperties: 1 },
    ),
    result: Tenant,
  }),
  'tenant-config.members.list': action({
    summary: 'List members',
    rest: 'GET /tenants/{tenant_id}/users',
    access: admins,
    keyScope: 'members:read',
    path: tenantPath,
    query: page,
    result: Page(Member),
    response: 'list',
  }),
  'tenant-config.members.add': action({
    summary: 'Add a member',
    rest: 'POST /tenants/{tenant_id}/users',
    access: admins,
    keyScope: 'members:write',
    path: tenantPath,
    body: Type.Object(
      {
        email: Email,
        display_name: Type.Optional(Text),
        password: Type.Optional(Password),
        roles: Roles,
        groups: Type.Optional(Groups),
      },
      strict,
    ),
    result: Member,
    response: 'created',
  }),
  'tenant-config.members.patch': action({
    summary: "Change a member's roles or groups",
    rest: 'PATCH /tenants/{tenant_id}/users/{user_id}',
    access: admins,
    keyScope: 'members:write',
    path: memberPath,
    body: Type.Object(
      { roles: Type.Optional(Roles), groups: Type.Optional(Groups) },
      { ...strict, minProperties: 1 },
    ),
    result: Member,
    drops: (params) => [memberKey(params)],
  }),
  'tenant-config.members.remove': action({
    summary: 'Remove a member',
    rest: 'DELETE /tenants/{tenant_id}/users/{user_id}',
    access: admins,
    keyScope: 'members:write',
    path: memberPath,
    result: Type.Null(),
    response: 'nothing',
    drops: (params) => [memberKey(params)],
  }),
  'tenant-config.members.resolve': action({
    summary: 'A membership as the gateway needs it',
    access: { level: 'internal' },
    path: memberPath,
    result: Membership,
    cache: {
      cache: 'identity',
      key: memberKey,
      revisionScopes: ({ tenant_id }) => [memberScope(tenant_id)],
    },
  }),
  'tenant-config.members.of': action({
    summary: "A user's memberships",
    access: { level: 'internal' },
    path: { user_id: Uuid },
    result: Type.Array(Membership),
  }),
  'tenant-config.members.provision': action({
    summary: 'Membership for whoever signs in the first time; an existing one stays as it is',
    access: { level: 'internal' },
    path: memberPath,
    body: Type.Object({ roles: Roles }, strict),
    result: Type.Null(),
  }),
  'tenant-config.members.approvers': action({
    summary: 'Who is in each approver group, and who administers the tenant, for the notifier',
    access: { level: 'internal' },
    path: { ...tenantPath, groups: Type.Array(Type.String()) },
    result: Type.Object(
      { groups: Type.Record(Type.String(), Type.Array(Approver)), admins: Type.Array(Approver) },
      strict,
    ),
  }),

  'tenant-config.layers': action({
    summary: "The tenant's layers of one effective configuration, from one snapshot",
    access: { level: 'internal' },
    path: tenantPath,
    query: {
      ...effectiveParams,
      as_of: Type.Optional(Type.Union([Type.Integer({ minimum: 0 }), Timestamp])),
    },
    result: Type.Object(
      {
        revision: Type.Integer(),
        newest: Type.Integer({
          description:
            "The tenant's revision in the same snapshot, also where older layers are answered",
        }),
        risk: Layer(RiskDocument),
        agent: Layer(AgentDocument),
        service: Layer(ServiceDocument),
      },
      strict,
    ),
  }),
  'tenant-config.agents.types': action({
    summary: 'Agent types that the tenant has configured',
    access: { level: 'internal' },
    path: tenantPath,
    result: Type.Array(Slug),
  }),
} as const;

/** Platform changes reach every tenant's effective configuration. */
export const effectiveScopes = (tenantId: string): RevisionScope[] => [
  tenantScope(tenantId),
  platformScope,
];
