/**
 * ConfigurationHistory: every write of a tenant's documents and of the platform's, with what it changed; and rollback to what a revision
 * left behind.
 */
import { Type } from 'typebox';
import { action, Change, dryRun, Page, page, write, Written } from './contract.ts';
import { ActorName, Nullable, strict, Timestamp } from './fields.ts';
import { impactQuery } from './impact.ts';
import { platformAdmins } from './platform-document.ts';
import { configurationReaders, tenantAdmins, tenantPath } from './tenant-document.ts';

/** The tenant documents, by the names that the history gives them. */
export const configTypes = [
  'tenant_risk_config',
  'agent_config',
  'service_config',
  'project_config',
  'notification_config',
  'bounds_config',
] as const;
export type ConfigType = (typeof configTypes)[number];

/** The platform's documents, likewise. */
export const platformConfigTypes = [
  'global_config',
  'service_type_config',
  'bounds_config',
] as const;
export type PlatformConfigType = (typeof platformConfigTypes)[number];

export const writeActions = ['create', 'update', 'delete', 'rollback'] as const;
export type WriteAction = (typeof writeActions)[number];

const entryFields = <Types extends string[]>(types: readonly [...Types], resourceId: string) => ({
  revision: Type.Integer(),
  config_type: Type.Enum(types),
  resource_id: Type.String({ description: resourceId }),
  action: Type.Enum(writeActions),
  changed_by: Type.String(),
  changed_by_name: ActorName,
  changed_at: Timestamp,
  reason: Nullable(Type.String()),
  request_id: Nullable(Type.String()),
  changes: Type.Array(Change),
});
const documents = { before: Type.Unknown(), after: Type.Unknown() };

const ofTenant = entryFields(
  configTypes,
  "The document's id in its path, such as an agent type; the tenant id where there is one per tenant",
);
const HistoryEntry = Type.Object(ofTenant, strict);
const HistoryDetail = Type.Object({ ...ofTenant, ...documents }, strict);

const ofPlatform = entryFields(
  platformConfigTypes,
  'The key of a global entry, `{service_type}/{configuration_name}`, or `platform` for its bounds',
);
const PlatformHistoryEntry = Type.Object(ofPlatform, strict);
const PlatformHistoryDetail = Type.Object({ ...ofPlatform, ...documents }, strict);

const rollbackBody = Type.Object(
  {
    revision: Type.Integer({ minimum: 1 }),
    reason: Type.Optional(Type.String({ maxLength: 500 })),
  },
  strict,
);

const access = { level: 'tenant', roles: configurationReaders } as const;

export const historyContracts = {
  'tenant-config.history.list': action({
    summary: 'What changed, newest first',
    rest: 'GET /tenants/{tenant_id}/config/history',
    access,
    keyScope: 'config:read',
    path: tenantPath,
    query: {
      config_type: Type.Optional(Type.Enum(configTypes)),
      resource_id: Type.Optional(Type.String({ maxLength: 200 })),
      ...page,
    },
    result: Page(HistoryEntry),
    response: 'list',
  }),
  'tenant-config.history.get': action({
    summary: 'One change with the document before and after',
    rest: 'GET /tenants/{tenant_id}/config/history/{revision}',
    access,
    keyScope: 'config:read',
    path: { ...tenantPath, revision: Type.Integer({ minimum: 1 }) },
    result: HistoryDetail,
  }),
  /** Names no key to drop: which document it writes stands in the history, so the service adds that document's key. */
  'tenant-config.rollback': write({
    summary: 'Restore what a resource held right after a revision',
    rest: 'POST /tenants/{tenant_id}/config/rollback',
    access: tenantAdmins,
    keyScope: 'config:write',
    path: tenantPath,
    query: dryRun,
    body: rollbackBody,
    result: Written(Type.Unknown()),
  }),

  'global-config.history.list': action({
    summary: 'What changed of the platform, newest first',
    rest: 'GET /config/history',
    access: platformAdmins,
    keyScope: 'platform:read',
    query: {
      config_type: Type.Optional(Type.Enum(platformConfigTypes)),
      resource_id: Type.Optional(Type.String({ maxLength: 200 })),
      ...page,
    },
    result: Page(PlatformHistoryEntry),
    response: 'list',
  }),
  'global-config.history.get': action({
    summary: 'One change of the platform with the document before and after',
    rest: 'GET /config/history/{revision}',
    access: platformAdmins,
    keyScope: 'platform:read',
    path: { revision: Type.Integer({ minimum: 1 }) },
    result: PlatformHistoryDetail,
  }),
  /** Like the tenant's. */
  'global-config.rollback': write({
    summary: 'Restore what a resource of the platform held right after a revision',
    rest: 'POST /config/rollback',
    access: platformAdmins,
    keyScope: 'platform:write',
    query: { ...dryRun, ...impactQuery },
    body: rollbackBody,
    result: Written(Type.Unknown()),
  }),
} as const;
