/**
 * Memberships: who belongs to a tenant, with which roles and approver groups. The accounts
 * themselves are `auth`'s.
 */
import { Type } from 'typebox';
import { exceedViewer, inBody, type CallParams } from './consequences.ts';
import { action, internal, internalRead } from './contract.ts';
import { GivenRoles, TenantRole } from './roles.ts';
import { listing } from './envelopes.ts';
import {
  described,
  DescribedObject,
  Email,
  Nullable,
  Optional,
  StrictObject,
  Timestamp,
  TitledObject,
  UserId,
  Uuid,
} from './fields.ts';
import { decisionRights } from './notifier.ts';
import { memberScope } from './revision-scopes.ts';
import { SignInPolicy } from './sign-in-policy.ts';
import { tenantAdmins, tenantPath } from './tenant-document.ts';

export const ApproverGroups = Type.Array(Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$' }), {
  uniqueItems: true,
  maxItems: 100,
  description: 'Approver groups',
});
export const MemberStatus = Type.Enum(['invited', 'active'], {
  description: 'An invited person has no right until they accept',
});

const Member = TitledObject('Member', 'A person in a tenant', {
  user_id: UserId,
  email: Email,
  display_name: Nullable(
    Type.String({ description: 'Of the account; null until the person has accepted' }),
  ),
  roles: GivenRoles,
  groups: ApproverGroups,
  status: MemberStatus,
  account_status: Nullable(
    Type.Enum(['active', 'disabled'], {
      description:
        'Of the account, which a platform administrator disables; null until they have accepted',
    }),
  ),
  can_act: Type.Boolean({
    description: 'Whether they can use their roles: a member, whose account is not disabled',
  }),
  added_at: described(Timestamp, 'When they were invited or added'),
  by_directory: Type.Optional(
    DescribedObject(
      'Those of the roles and groups that a group of the directory gives and no one here gave',
      {
        roles: Type.Array(TenantRole, { description: 'Roles' }),
        groups: Type.Array(Type.String(), { description: 'Approver groups' }),
      },
    ),
  ),
  managed_by: Type.Optional(
    Nullable(
      Type.Literal('scim', {
        description: 'The directory that provisions them; null where a person added them',
      }),
    ),
  ),
});
const Approver = StrictObject({ user_id: Uuid, email: Email });
/** A membership with what every request of the member needs to know of the tenant. */
const Membership = StrictObject({
  tenant_id: Uuid,
  tenant_name: Type.String(),
  tenant_status: Type.Enum(['active', 'disabled']),
  sign_in_policy: SignInPolicy,
  roles: GivenRoles,
  groups: ApproverGroups,
});

const memberPath = { ...tenantPath, user_id: UserId };
export interface MemberAddress {
  readonly tenant_id: string;
  readonly user_id: string;
}
export const memberKey = ({ tenant_id, user_id }: MemberAddress): string =>
  `member_${tenant_id}_${user_id}`;
/** Whose membership or visit a cache key is of; undefined where it is of something else. */
export function memberOfKey(key: string): MemberAddress | undefined {
  const [, tenantId, userId] = /^(?:member|visit)_([0-9a-f-]{36})_([0-9a-f-]{36})$/.exec(key) ?? [];
  return tenantId === undefined || userId === undefined
    ? undefined
    : { tenant_id: tenantId, user_id: userId };
}

const namesAny = (groups: unknown): boolean => Array.isArray(groups) && groups.length > 0;

export const memberContracts = {
  'tenant-config.members.list': listing({
    summary: 'List members',
    rest: 'GET /tenants/{tenant_id}/users',
    access: tenantAdmins,
    keyScope: 'members:read',
    path: tenantPath,
    items: Member,
  }),
  'tenant-config.members.add': action({
    summary:
      "Invite a member; active immediately where the tenant's own identity provider owns the address",
    rest: 'POST /tenants/{tenant_id}/users',
    access: tenantAdmins,
    leadsTo: {
      power: 'sign_in',
      otherwise: 'operations',
      where: 'it gives a role above viewer, or groups',
      includes: (params: CallParams) =>
        exceedViewer(inBody(params, 'roles')) || namesAny(inBody(params, 'groups')),
    },
    keyScope: 'members:write',
    path: tenantPath,
    body: StrictObject({
      email: described(Email, 'Whom to invite', 'grace@example.com'),
      roles: GivenRoles,
      groups: Type.Optional(ApproverGroups),
    }),
    result: Member,
    response: 'created',
  }),
  'tenant-config.members.invite': action({
    summary: 'Resend an invitation; the previous link expires',
    rest: 'POST /tenants/{tenant_id}/users/{user_id}/invite',
    access: { level: 'tenant_or_platform', roles: ['tenant_admin'] },
    leadsTo: 'operations',
    keyScope: 'members:write',
    path: memberPath,
    result: Member,
    response: 'accepted',
  }),
  'tenant-config.members.patch': action({
    summary: "Change a member's roles or groups",
    rest: 'PATCH /tenants/{tenant_id}/users/{user_id}',
    access: tenantAdmins,
    leadsTo: 'sign_in',
    keyScope: 'identity:manage',
    path: memberPath,
    body: StrictObject(
      { roles: Type.Optional(GivenRoles), groups: Type.Optional(ApproverGroups) },
      {
        minProperties: 1,
        title: 'MemberPatch',
        description: 'What changes of a member',
        examples: [{ roles: ['operator'] }],
      },
    ),
    result: Member,
    drops: (params) => [memberKey(params)],
  }),
  'tenant-config.members.remove': action({
    summary: 'Remove a member',
    rest: 'DELETE /tenants/{tenant_id}/users/{user_id}',
    access: tenantAdmins,
    leadsTo: 'removal',
    keyScope: 'members:write',
    path: memberPath,
    drops: (params) => [memberKey(params)],
  }),
  'tenant-config.members.resolve': internal({
    summary: 'A membership as the gateway needs it',
    path: memberPath,
    result: Membership,
    cache: {
      cache: 'identity',
      key: memberKey,
      revisionScopes: ({ tenant_id }) => [memberScope(tenant_id)],
    },
  }),
  'tenant-config.members.of': internalRead({
    summary: "A user's memberships",
    path: { user_id: Uuid },
    result: Type.Array(Membership),
  }),
  'tenant-config.members.invitations': internalRead({
    summary: 'The memberships that a user has not accepted yet',
    path: { user_id: Uuid },
    result: Type.Array(Membership),
  }),
  'tenant-config.members.accept': internal({
    summary: 'Make an invited member active, by their own word; one who is active stays so',
    path: memberPath,
    result: Membership,
  }),
  'tenant-config.members.decline': internal({
    summary: 'Remove an invited member, by their own word',
    path: memberPath,
  }),
  'tenant-config.members.lapse': internal({
    summary: 'Remove an invited member whose invitation expired long ago',
    path: memberPath,
  }),
  'tenant-config.members.erase': internal({
    summary: 'Remove somebody whose account is erased from every tenant',
    path: { user_id: Uuid },
  }),
  'tenant-config.members.provision': internal({
    summary: 'Membership at a first sign-in; one that exists, or is offered, stays as it is',
    path: memberPath,
    body: StrictObject({ roles: GivenRoles }),
  }),
  'tenant-config.members.decider': internalRead({
    summary:
      'Who a member, a service account or a mailed address is, and by which right they decide now',
    path: {
      ...tenantPath,
      user_id: Type.Optional(Uuid),
      account_id: Type.Optional(Uuid),
      email: Optional.String({ maxLength: 254, description: 'One of these three says who' }),
      groups: Type.Array(Type.String(), { description: 'Approver groups that were asked so far' }),
      asked: Type.Optional(
        DescribedObject(
          'When the approval was asked for, and which principals asked; absent: now, by no one who gave anything',
          { at: Type.String(), by: Type.Array(Type.String()) },
        ),
      ),
      recipients: Optional.Array(Type.String(), {
        description: 'Addresses without an account that counted when it was asked for',
      }),
    },
    result: StrictObject({
      tenant_name: Type.String(),
      revisions: Type.Record(Type.String(), Type.Integer(), {
        description: 'Of the scopes that say it; it is so at least until one of them changes',
      }),
      decider: Nullable(
        StrictObject({
          id: Type.String({ description: 'User or account id, or the address itself' }),
          name: Type.String(),
          email: Nullable(Type.String()),
          right: Type.Enum(decisionRights),
        }),
      ),
      why_not: Nullable(
        Type.Enum(['added_later', 'added_by_requester'], {
          description: 'Why a right that they have now does not count for the approval',
        }),
      ),
    }),
  }),
  'tenant-config.members.approvers': internalRead({
    summary: 'Who is in each approver group, and who administers the tenant, for the notifier',
    path: { ...tenantPath, groups: Type.Array(Type.String()) },
    result: StrictObject({
      groups: Type.Record(Type.String(), Type.Array(Approver)),
      admins: Type.Array(Approver),
      groups_with_deciders: Type.Array(Type.String(), {
        description: 'Those of the groups that have somebody who could decide',
      }),
    }),
  }),
} as const;
