/**
 * ConfigurationHistory: every write of a tenant's documents and of the platform's, with what it
 * changed; and rollback to what a revision left behind.
 */
import { Type, type TSchema } from 'typebox';
import { action, dryRun, internal, write } from './contract.ts';
import { Change, listing, Written } from './envelopes.ts';
import {
  ActorName,
  Author,
  described,
  Nullable,
  Optional,
  StrictObject,
  Timestamp,
  TitledObject,
  Uuid,
} from './fields.ts';
import { impactQuery } from './impact.ts';
import { platformAdmins } from './platform-document.ts';
import { configurationReaders, tenantPath } from './tenant-document.ts';

/** The tenant documents, by the names that the history gives them. */
export const configTypes = [
  'tenant_risk_config',
  'agent_config',
  'service_config',
  'project_config',
  'notification_config',
  'bounds_config',
  'budgets_config',
  'freezes_config',
  'change_policy_config',
  'event_destinations_config',
] as const;
export type ConfigType = (typeof configTypes)[number];
export const ConfigType = Type.Enum(configTypes, {
  title: 'ConfigType',
  description: "Kind of a tenant's document",
});

/** The platform's documents, likewise. */
export const platformConfigTypes = [
  'global_config',
  'service_type_config',
  'bounds_config',
  'budgets_config',
  'freezes_config',
  'change_policy_config',
  'event_destinations_config',
  'rollout_config',
] as const;
export type PlatformConfigType = (typeof platformConfigTypes)[number];
const PlatformConfigType = Type.Enum(platformConfigTypes, {
  title: 'PlatformConfigType',
  description: "Kind of a document of the platform's",
});

/** `purge` writes no document: it takes past ones of the platform out of its history. */
const writeActions = ['create', 'update', 'delete', 'rollback', 'purge'] as const;
export type WriteAction = (typeof writeActions)[number];
/** What makes a document what it is. */
export type DocumentAction = Exclude<WriteAction, 'purge'>;
export const WriteAction = Type.Enum(writeActions, {
  title: 'WriteAction',
  description: 'How it was written',
});

/** The beginning of a document's audit events, by its kind. */
const auditNames: Readonly<Record<PlatformConfigType, string>> = {
  global_config: 'config.global.',
  service_type_config: 'config.service_type.',
  bounds_config: 'config.bounds.',
  budgets_config: 'config.budgets.',
  freezes_config: 'config.freezes.',
  change_policy_config: 'config.change_policy.',
  event_destinations_config: 'config.event_destinations.',
  rollout_config: 'config.rollout.',
};
export const purgedAction = (type: PlatformConfigType): string => `${auditNames[type]}purged`;
/** The beginning of the events that a purge concerns; undefined where it is none. */
export const purgedBy = (action: string): string | undefined =>
  Object.values(auditNames).find((name) => action === `${name}purged`);

const entryFields = <Kind extends TSchema>(kind: Kind, resourceId: string) => ({
  revision: Type.Integer({ description: 'The revision that it made', examples: [12] }),
  config_type: kind,
  resource_id: Type.String({ description: resourceId }),
  action: WriteAction,
  changed_by: Author,
  changed_by_name: ActorName,
  changed_at: described(Timestamp, 'When it was written'),
  reason: Nullable(Type.String({ description: 'Why, in the words of who wrote it' })),
  request_id: Nullable(Type.String({ description: 'Of the request that wrote it' })),
  changeset_id: Type.Optional(described(Uuid, 'The change set that it was a part of')),
  break_glass: Optional.Literal(true, {
    description: 'It was written in an emergency, without approvals',
  }),
  changes: Type.Array(Change, { description: 'What changed in the document' }),
});
const documents = {
  before: Type.Unknown({ description: 'The document before; null if there was none' }),
  after: Type.Unknown({ description: 'The document after; null if it was removed' }),
};

const ofTenant = {
  ...entryFields(
    ConfigType,
    "The document's id in its path, such as an agent type; the tenant id where there is one per tenant",
  ),
  until: Type.Optional(described(Timestamp, 'When what it changed ends by itself, or has ended')),
};
const HistoryEntry = TitledObject('HistoryEntry', "One write of a tenant's document", ofTenant);
const HistoryDetail = TitledObject(
  'HistoryDetail',
  "One write of a tenant's document, with the document",
  { ...ofTenant, ...documents },
);

const PlatformResourceId =
  'The key of a global entry, `{service_type}/{configuration_name}`, the id of a rollout, or `platform` for its bounds, budgets, freezes, change_policy and event_destinations';
const ofPlatform = {
  ...entryFields(PlatformConfigType, PlatformResourceId),
  purged: Type.Optional(
    TitledObject('PurgedValues', 'Where values of this write were purged', {
      by: described(Author, 'Who purged it'),
      at: described(Timestamp, 'When it was purged'),
      reason: Type.String({ description: 'Why, in the words of who purged it' }),
    }),
  ),
};
const PlatformHistoryEntry = TitledObject(
  'PlatformHistoryEntry',
  "One write of a document of the platform's",
  ofPlatform,
);
const PlatformHistoryDetail = TitledObject(
  'PlatformHistoryDetail',
  "One write of a document of the platform's, with the document",
  { ...ofPlatform, ...documents },
);

const ResourceId = Optional.String({ maxLength: 200, description: 'Only the document of this id' });
/** Who and when, of the lists. */
const listed = {
  changed_by: Optional.String({
    maxLength: 254,
    description: 'Only by this id, or by the e-mail address of a person who has signed in',
  }),
  since: Type.Optional(described(Timestamp, 'Only from this time on')),
  until: Type.Optional(described(Timestamp, 'Only before this time')),
};
const ofWrite = Type.Integer({ minimum: 1, description: 'The revision that the write made' });

/**
 * Either `revision` or `undo`. Both is refused by `takeBackOf` in `shared/documents/history.ts`, as
 * is neither.
 */
const rollbackBody = TitledObject('Rollback', 'What to go back to', {
  revision: Optional.Integer({
    minimum: 1,
    description: 'The write whose document comes back, with what it left behind',
    examples: [12],
  }),
  undo: Optional.Integer({
    minimum: 1,
    description:
      'The write to undo: its document becomes what it was before; one that it made goes',
  }),
  reason: Optional.String({ maxLength: 500, description: 'Reason, kept in the history' }),
});

const Restored = Type.Unknown({ description: 'The document, as it was' });

const PurgedHistory = TitledObject('PurgedHistory', 'What was purged', {
  revision: Type.Integer({ description: 'The revision that the purge made' }),
  config_type: PlatformConfigType,
  resource_id: Type.String({ description: PlatformResourceId }),
  entries: Type.Integer({ description: 'How many entries of the history lost their values' }),
  still_in_force: Type.Boolean({
    description:
      'Whether the document holds one of the purged values now, which stays until it is changed',
  }),
  at: described(Timestamp, 'When it was done'),
});

const access = { level: 'tenant', roles: [...configurationReaders, 'reverter'] } as const;
/** What only administrators may write, because it is a power, they alone take back. */
const reverters = { level: 'tenant', roles: ['tenant_admin', 'reverter'] } as const;

export const historyContracts = {
  'tenant-config.history.list': listing({
    summary: 'What changed, newest first',
    rest: 'GET /tenants/{tenant_id}/config/history',
    access,
    keyScope: 'config:read',
    path: tenantPath,
    query: {
      config_type: Type.Optional(described(ConfigType, 'Only documents of this kind')),
      resource_id: ResourceId,
      ...listed,
    },
    items: HistoryEntry,
  }),
  'tenant-config.history.get': action({
    summary: 'One change with the document before and after',
    rest: 'GET /tenants/{tenant_id}/config/history/{revision}',
    access,
    keyScope: 'config:read',
    path: { ...tenantPath, revision: ofWrite },
    result: HistoryDetail,
  }),
  'tenant-config.history.resource': internal({
    summary: 'Which document a revision wrote',
    path: { ...tenantPath, revision: ofWrite },
    result: StrictObject({ config_type: ofTenant.config_type, resource_id: ofTenant.resource_id }),
  }),
  /**
   * Names no key to drop: which document it writes is in the history, so the service adds that
   * document's key.
   */
  'tenant-config.rollback': write({
    summary: 'Roll back a resource to its state right after a revision, or right before one',
    rest: 'POST /tenants/{tenant_id}/config/rollback',
    access: reverters,
    leadsTo: 'configuration',
    keyScope: 'config:write',
    narrow: 'row',
    path: tenantPath,
    query: dryRun,
    body: rollbackBody,
    result: Written(Restored),
  }),

  'global-config.history.list': listing({
    summary: 'What changed of the platform, newest first',
    rest: 'GET /config/history',
    access: platformAdmins,
    keyScope: 'platform:read',
    query: {
      config_type: Type.Optional(described(PlatformConfigType, 'Only documents of this kind')),
      resource_id: ResourceId,
      ...listed,
    },
    items: PlatformHistoryEntry,
  }),
  'global-config.history.get': action({
    summary: 'One change of the platform with the document before and after',
    rest: 'GET /config/history/{revision}',
    access: platformAdmins,
    keyScope: 'platform:read',
    path: { revision: ofWrite },
    result: PlatformHistoryDetail,
  }),
  /** Like the tenant's. */
  'global-config.rollback': write({
    summary:
      'Roll back a resource of the platform to its state right after a revision, or right before one',
    rest: 'POST /config/rollback',
    access: platformAdmins,
    leadsTo: 'configuration',
    keyScope: 'platform:write',
    query: { ...dryRun, ...impactQuery },
    body: rollbackBody,
    result: Written(Restored),
  }),
  /** The values that a document had before the one of now, also in the audit. */
  'global-config.history.purge': action({
    summary: 'Purge past values of a document of the platform from its history',
    rest: 'POST /config/history/purge',
    access: platformAdmins,
    leadsTo: 'proof',
    keyScope: null,
    body: TitledObject('HistoryPurge', 'Whose past values go', {
      config_type: PlatformConfigType,
      resource_id: Type.String({
        minLength: 1,
        maxLength: 200,
        description: PlatformResourceId,
        examples: ['alerting_band'],
      }),
      reason: Type.String({
        minLength: 1,
        maxLength: 500,
        description: 'Reason, kept in the history and the audit',
      }),
    }),
    result: PurgedHistory,
  }),
} as const;
