/**
 * Who was in a tenant at a moment, what each could do, and who could have approved what was asked
 * for then: for people who review access.
 */
import { Type, type Static } from 'typebox';
import { Bounds } from './bounds.ts';
import { ChangePolicy } from './change-policy.ts';
import { action } from './contract.ts';
import { TenantRole } from './roles.ts';
import {
  described,
  DescribedObject,
  Email,
  Line,
  Nullable,
  Optional,
  TenantId,
  Timestamp,
  TitledObject,
  UserId,
  Uuid,
} from './fields.ts';
import { MemberStatus } from './members.ts';
import { decisionRights, RiskLevel } from './notifier.ts';
import { tenantAdmins, tenantPath } from './tenant-document.ts';

const Roles = Type.Array(TenantRole, { description: 'Roles in the tenant' });
const Ids = (description: string) => Type.Array(Uuid, { description });

const ReportedMember = TitledObject('ReportedMember', 'A person in the tenant then', {
  user_id: UserId,
  email: described(Nullable(Email), 'As it is now; null: the account was erased'),
  display_name: Nullable(
    Type.String({ description: 'As it is now; null: none, or they have not accepted' }),
  ),
  roles: Roles,
  groups: Type.Array(Type.String(), { description: 'Approver groups' }),
  status: MemberStatus,
  account_status: Nullable(
    Type.Enum(['active', 'disabled'], {
      description: 'Of the account then; null: not known, or they had not accepted',
    }),
  ),
  can_act: Nullable(
    Type.Boolean({ description: 'Whether they could use their roles; null: not known' }),
  ),
});
const ReportedAccount = TitledObject(
  'ReportedServiceAccount',
  'A service account of the tenant then',
  {
    id: described(Uuid, "The service account's id"),
    name: Line(100, 'What it was called then'),
    roles: Roles,
    status: Type.Enum(['active', 'disabled'], { description: 'Then' }),
  },
);
const ReportedGroup = TitledObject('ReportedGroup', 'An approver group then', {
  name: Type.String({ description: 'The approver group' }),
  members: Ids('Who was in it'),
  deciders: Ids('Those of them who could decide'),
});
export const ReportedVisit = TitledObject(
  'ReportedVisit',
  'A platform administrator who looked into the tenant then',
  {
    id: described(Uuid, "The visit's id"),
    user_id: UserId,
    reason: Type.String({ description: 'Why, in their words' }),
    created_at: described(Timestamp, 'When it began'),
    until: described(Timestamp, 'When it ended by itself, at the latest'),
  },
);
const Deciders = TitledObject('ReportedDeciders', 'Who could decide, from one hop on', {
  hop: Type.Integer({ description: 'Escalations after which they could decide' }),
  right: Type.Enum(decisionRights, { description: 'By which right' }),
  ids: Ids('Of people and service accounts'),
});
const ReportedRoute = TitledObject('ReportedRoute', 'Who is asked, and who could decide', {
  action: Nullable(Type.String({ description: 'Of this action at any risk; null: of all others' })),
  risk_level: described(Nullable(RiskLevel), 'At this risk; null: at any'),
  chain: Type.Array(Type.String(), { description: 'Groups, in the order in which they are asked' }),
  deciders: Type.Array(Deciders, { description: 'Who could decide, by hop and right' }),
  recipients: Type.Array(Type.String(), {
    description: 'Addresses that decide by a mailed link, where they belong to no account',
  }),
});

export const AccessReport = TitledObject(
  'AccessReport',
  'Who was in a tenant at a moment, and who could approve what',
  {
    tenant_id: TenantId,
    at: described(Timestamp, 'The moment that it is of'),
    revision: Type.Integer({ description: "Of the tenant's configuration then" }),
    complete: Type.Boolean({
      description:
        'Whether all of it is known. What is not known is null, and no one is listed from before `known_since`',
    }),
    known_since: described(
      Nullable(Timestamp),
      'Since when it is known who was in the tenant; null: since there is one',
    ),
    members: Type.Array(ReportedMember, { description: 'By address' }),
    service_accounts: Type.Array(ReportedAccount, { description: 'By name' }),
    visits: Type.Array(ReportedVisit, {
      description: 'By whom of the platform it was read then, as by a reviewer who decides nothing',
    }),
    groups: Type.Array(ReportedGroup, { description: 'Those with members, and those asked' }),
    approvals: DescribedObject('Who could approve what automation asked for', {
      required: Type.Record(Type.String(), Type.Integer(), {
        description: 'Risk level to how many must approve',
      }),
      allow_self: Type.Boolean({ description: 'The requester may decide, too' }),
      machines: Type.Boolean({ description: 'API keys may decide' }),
      max_hops: Type.Integer({ description: 'Hops after the first notice' }),
      window_minutes: Type.Integer({ description: 'Wait from hop to hop' }),
      routes: Type.Array(ReportedRoute, {
        description: 'Of an approval that is asked for at that moment by no one of them',
      }),
    }),
    change_sets: DescribedObject('Who could approve changes of the configuration', {
      policy: described(Nullable(ChangePolicy), "The tenant's change_policy; null: none"),
      approvers: Ids("Who could approve by it; the platform's may want more"),
    }),
    bounds: described(Nullable(Bounds), "The tenant's bounds; null: none"),
    platform_bounds: described(
      Nullable(Bounds),
      "The platform's bounds, which hold in every tenant; null: none, or, where the report is not complete, from before their history",
    ),
  },
);
export type AccessReport = Static<typeof AccessReport>;

export const accessReportContracts = {
  'tenant-config.access-report': action({
    summary: 'Who was in the tenant at a moment, and who could approve what',
    rest: 'GET /tenants/{tenant_id}/access-report',
    access: tenantAdmins,
    keyScope: 'audit:read',
    path: tenantPath,
    query: {
      at: Type.Optional(described(Timestamp, 'The moment; now by default')),
      format: Optional.Enum(['json', 'csv'], {
        description: '`csv` is what `Accept: text/csv` gets; `json` by default',
      }),
    },
    result: AccessReport,
    response: 'report',
  }),
} as const;
