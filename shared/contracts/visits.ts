/**
 * Visits: a platform administrator reads one tenant, as its reviewers do, for a bounded time and
 * for a reason that the tenant reads. A visit is no membership: nothing that asks for members knows
 * of it.
 */
import { Type, type Static } from 'typebox';
import { action, internal, type Access } from './contract.ts';
import { listing } from './envelopes.ts';
import {
  CreatedAt,
  described,
  Nullable,
  StrictObject,
  TenantId,
  Timestamp,
  TitledObject,
  UserId,
  Uuid,
} from './fields.ts';
import type { MemberAddress } from './members.ts';
import { memberScope } from './revision-scopes.ts';
import type { TenantRole } from './roles.ts';
import { SignInPolicy } from './sign-in-policy.ts';
import { tenantPath } from './tenant-document.ts';

export const visitMinutes = 30;
/** What of the tenant a visitor reads. They decide nothing, as they write nothing. */
export const visitRoles = ['reviewer'] as const satisfies readonly TenantRole[];

export const Visit = TitledObject('Visit', 'A platform administrator looks into a tenant', {
  id: described(Uuid, 'Its id'),
  tenant_id: described(TenantId, 'The tenant that is looked into'),
  user_id: described(UserId, 'The platform administrator who looks'),
  reason: Type.String({ description: 'Why, in their words' }),
  created_at: CreatedAt,
  until: described(Timestamp, 'When it ends by itself'),
  ended_at: Nullable(described(Timestamp, 'When it ended; null while it is open')),
});
export type Visit = Static<typeof Visit>;

const visitPath = { ...tenantPath, visit_id: described(Uuid, "The visit's id") };
const hosts = { level: 'tenant_or_platform', roles: ['tenant_admin'] } as const satisfies Access;

export const visitKey = ({ tenant_id, user_id }: MemberAddress): string =>
  `visit_${tenant_id}_${user_id}`;

export const visitContracts = {
  'tenant-config.visits.begin': action({
    summary: `Start a read-only visit to a tenant, for ${visitMinutes} minutes`,
    rest: 'POST /tenants/{tenant_id}/visits',
    access: { level: 'platform_admin' },
    leadsTo: 'sign_in',
    keyScope: null,
    path: tenantPath,
    body: TitledObject('VisitRequest', 'Why a tenant is looked into', {
      reason: Type.String({
        minLength: 10,
        maxLength: 500,
        pattern: '\\S',
        description: 'Why; the tenant reads it',
        examples: ['Ticket 4711: a value is not what they expect'],
      }),
    }),
    result: Visit,
    response: 'created',
  }),
  'tenant-config.visits.list': listing({
    summary: 'List visits of platform administrators to the tenant, newest first',
    rest: 'GET /tenants/{tenant_id}/visits',
    access: hosts,
    keyScope: 'members:read',
    path: tenantPath,
    items: Visit,
  }),
  'tenant-config.visits.end': action({
    summary: 'End a visit; one that has ended stays as it is',
    rest: 'POST /tenants/{tenant_id}/visits/{visit_id}/end',
    access: { ...hosts, whileVisiting: true },
    leadsTo: 'removal',
    keyScope: 'members:write',
    path: visitPath,
    result: Visit,
  }),
  'tenant-config.visits.expire': internal({
    summary: 'End a visit whose time is over',
    path: visitPath,
  }),
  'tenant-config.visits.resolve': internal({
    summary: 'The open visit of a person, as the gateway needs it',
    path: { ...tenantPath, user_id: UserId },
    result: StrictObject({
      id: Uuid,
      session_id: Uuid,
      until: Timestamp,
      tenant_name: Type.String(),
      tenant_status: Type.Enum(['active', 'disabled']),
      sign_in_policy: SignInPolicy,
    }),
    cache: {
      cache: 'identity',
      key: visitKey,
      revisionScopes: ({ tenant_id }) => [memberScope(tenant_id)],
    },
  }),
} as const;
