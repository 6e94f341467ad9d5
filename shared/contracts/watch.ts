/**
 * Streams of what changed (Server-Sent Events). The gateway answers them; it reads the changes from
 * their owner, in order.
 */
import { Type } from 'typebox';
import { action, stream, streamOfBoth } from './contract.ts';
import { valueReaders } from './roles.ts';
import { afterRevision, Changes } from './envelopes.ts';
import { address, Revisions } from './effective-config.ts';
import { Author, described, Nullable, Revision, Timestamp, TitledObject, Uuid } from './fields.ts';
import { ConfigType, WriteAction } from './history.ts';
import { platformAdmins } from './platform-document.ts';
import { configurationReaders, tenantPath } from './tenant-document.ts';

/**
 * What a stream says of one revision: that it happened, to what and by whom. Values are read from
 * the resource, with its access.
 */
export const TenantChange = TitledObject('TenantChange', "That a tenant's document changed", {
  revision: Revision,
  config_type: ConfigType,
  resource_id: Type.String({ description: "The document's id, such as an agent type" }),
  action: WriteAction,
  changed_by: Author,
  changed_at: described(Timestamp, 'When it was written'),
  changeset_id: Type.Optional(described(Uuid, 'The change set that it was a part of')),
});
const PlatformChange = TitledObject('PlatformChange', "That the platform's configuration changed", {
  revision: Revision,
  keys: Type.Array(Type.String(), {
    description: 'Cache keys that it made stale, such as global_{key}',
  }),
  changed_at: described(Timestamp, 'When it was written'),
});
/** The values themselves are read from the effective configuration, at the revision or later. */
export const EffectiveChange = TitledObject('EffectiveChange', 'That effective values changed', {
  revision: Revisions,
  keys: Type.Array(Type.String(), {
    description: 'Whose value is another one than before, or is there no more',
  }),
});
/** What becomes of the own session: the two events of its stream. */
const SessionEnded = TitledObject('SessionEnded', 'That the own session ended', {
  code: Type.String({ description: 'Why, such as auth_session_revoked' }),
});
const MembershipsChanged = TitledObject('MembershipsChanged', 'That an own membership changed', {
  tenant_id: described(
    Nullable(Uuid),
    'Whose membership is another one, or is no more; null where changes were missed',
  ),
});

const tenant = {
  access: { level: 'tenant', roles: configurationReaders, services: true },
  keyScope: 'config:read',
  path: tenantPath,
} as const;
const platform = {
  access: { ...platformAdmins, services: true },
  keyScope: 'platform:read',
} as const;

export const watchContracts = {
  'tenant-config.changes': action({
    ...tenant,
    summary: 'Changes after a revision, oldest first',
    query: afterRevision,
    result: Changes(TenantChange),
    changesNothing: true,
  }),
  'global-config.changes': action({
    ...platform,
    summary:
      'Platform changes after a revision, oldest first, as far as the change feed keeps them',
    query: afterRevision,
    result: Changes(PlatformChange),
    changesNothing: true,
  }),
  'gateway.watch.tenant': stream({
    ...tenant,
    summary: "Watch the tenant's configuration",
    rest: 'GET /tenants/{tenant_id}/config/watch',
    result: TenantChange,
  }),
  'gateway.watch.platform': stream({
    ...platform,
    summary: 'Watch global entries and service types',
    rest: 'GET /config/watch',
    result: PlatformChange,
  }),
  'gateway.watch.session': action({
    summary: "Watch one's own session: its end, and changed memberships",
    rest: 'GET /auth/watch',
    access: { level: 'authenticated', inDisabledTenant: true, withAnySignIn: true },
    keyScope: null,
    result: Type.Union([SessionEnded, MembershipsChanged]),
    response: 'stream',
  }),
  'gateway.watch.effective': streamOfBoth({
    summary: 'Watch the effective configuration of one context',
    rest: 'GET /tenants/{tenant_id}/config/effective/watch',
    access: { level: 'tenant', roles: valueReaders },
    keyScope: 'config:read',
    narrow: ['service_ids', 'agent_types'],
    path: tenantPath,
    query: address,
    result: EffectiveChange,
  }),
} as const;
