/** What a tenant uses of what is everybody's, and how much of it it may. */
import { Type, type Static } from 'typebox';
import { action, internalRead } from './contract.ts';
import { listing } from './envelopes.ts';
import {
  described,
  Nullable,
  Optional,
  StrictObject,
  TenantId,
  TitledObject,
  Uuid,
} from './fields.ts';
import { tenantPath } from './tenant-document.ts';

export const countedUsages = ['api_keys', 'documents', 'members', 'service_accounts'] as const;
/** Counted by triggers: shared/commits/usage.ts. */
export type CountedUsage = (typeof countedUsages)[number];
export const notifierUsages = ['approvals_pending', 'automations_live'] as const;
export type NotifierUsage = (typeof notifierUsages)[number];
export const usageNames = [
  ...countedUsages,
  ...notifierUsages,
  'endpoints',
  'history_per_hour',
  'streams',
] as const;
export type UsageName = (typeof usageNames)[number];

const What = Type.Enum(usageNames, {
  title: 'UsageName',
  description:
    '`documents` are agent configurations, service instances and projects; `history_per_hour` are changes of the configuration in the last hour; `streams` are of each gateway',
});
const Used = Type.Integer({ description: 'How many there are' });
const Limit = Type.Integer({ description: 'How many there may be' });
const usage = {
  what: What,
  used: Nullable(
    Type.Integer({
      description: 'How many there are; null for streams, which each gateway counts',
    }),
  ),
  limit: Limit,
  setting: Type.String({
    description: 'The setting of the limit',
    examples: ['MEMBERS_PER_TENANT'],
  }),
};
const near = TitledObject('NearLimit', 'A tenant that is near one of its limits', {
  tenant_id: described(Uuid, 'Whose'),
  what: What,
  used: Used,
  limit: Limit,
});
export type NearLimit = Static<typeof near>;

/** A part of the list: what follows an entry of it, for whoever joins the parts. */
const nearPart = {
  query: {
    percent: Type.Integer({ minimum: 1, maximum: 100 }),
    after_what: Optional.String({ maxLength: 100 }),
    after_tenant: Type.Optional(Uuid),
    limit: Type.Integer({ minimum: 1, maximum: 201 }),
  },
  result: Type.Array(near),
} as const;

export const usageContracts = {
  'config-resolver.usage.get': action({
    summary: 'Usage and limits of a tenant',
    rest: 'GET /tenants/{tenant_id}/usage',
    access: { level: 'tenant_or_platform', roles: ['tenant_admin'] },
    keyScope: 'config:read',
    path: tenantPath,
    result: TitledObject('TenantUsage', 'Usage and limits of a tenant', {
      items: Type.Array(TitledObject('Usage', 'Of one kind', usage), { description: 'By kind' }),
    }),
  }),
  'config-resolver.usage.near': listing({
    summary: 'Tenants that are near one of their limits, by kind and tenant',
    rest: 'GET /config/usage',
    access: { level: 'platform_admin' },
    keyScope: 'platform:read',
    query: {
      percent: Optional.Integer({
        minimum: 1,
        maximum: 100,
        description: 'From this part of the limit on; 80 by default',
      }),
    },
    items: near,
  }),
  'tenant-config.usage.read': internalRead({
    summary: 'What tenant-config and auth keep of a tenant',
    path: { tenant_id: TenantId },
    result: StrictObject({
      api_keys: Used,
      documents: Used,
      members: Used,
      service_accounts: Used,
      endpoints: Used,
      history_per_hour: Used,
    }),
  }),
  'tenant-config.usage.near': internalRead({
    summary: 'Tenants that are near a limit of what is counted by rows',
    ...nearPart,
  }),
  'notifier.usage.read': internalRead({
    summary: 'What the notifier keeps of a tenant that has not ended',
    path: { tenant_id: TenantId },
    result: StrictObject({ approvals_pending: Used, automations_live: Used }),
  }),
  'notifier.usage.near': internalRead({
    summary: 'Tenants that are near a limit of what has not ended',
    ...nearPart,
  }),
} as const;
