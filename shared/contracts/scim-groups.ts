/**
 * Groups of a tenant's directory: the directory says by SCIM who is in one, and an administrator of
 * the tenant which roles and approver groups its people have by it. Never `tenant_admin`, since a
 * directory's key gives it to nobody.
 */
import { Type, type Static } from 'typebox';
import { action } from './contract.ts';
import { listing } from './envelopes.ts';
import {
  described,
  Nullable,
  Optional,
  StrictObject,
  Timestamp,
  TitledObject,
  UserId,
  Uuid,
} from './fields.ts';
import { ApproverGroups } from './members.ts';
import { tenantRoles, type TenantRole } from './roles.ts';
import {
  base,
  door,
  Filter,
  listOf,
  Meta,
  patchOf,
  protocol,
  scimPage,
  scimSchemas,
  Short,
  Urns,
} from './scim.ts';
import { tenantAdmins, tenantPath } from './tenant-document.ts';

/** The most groups of a directory, and the most people of one of them. */
export const mostDirectoryGroups = 200;
export const mostInDirectoryGroup = 1000;

const GroupId = described(Uuid, 'Id of a group of the directory');
const Name = Type.String({ minLength: 1, maxLength: 256, description: 'Its name' });

const ScimGroup = TitledObject('ScimGroup', 'A group of a tenant, as its directory knows it', {
  schemas: Urns,
  id: GroupId,
  externalId: Type.Optional(described(Short, 'What the directory calls the group')),
  displayName: Name,
  members: Optional.Array(
    TitledObject('ScimGroupMember', 'A person of a group (SCIM)', {
      value: UserId,
      display: Type.String({ description: 'The userName' }),
    }),
    { description: 'Who is in it; absent where excludedAttributes says so' },
  ),
  meta: Meta('Group'),
});

const SentMembers = Type.Array(
  Type.Object(
    { value: Type.String({ maxLength: 256, description: 'The id of a person' }) },
    { ...protocol, description: 'A person whom the directory provisioned' },
  ),
  { maxItems: mostInDirectoryGroup, description: 'Who is in it' },
);
const SentGroup = Type.Object(
  {
    schemas: Type.Optional(Urns),
    displayName: Name,
    externalId: Type.Optional(Nullable(described(Short, 'What the directory calls the group'))),
    members: Type.Optional(Nullable(SentMembers)),
  },
  {
    ...protocol,
    title: 'ScimGroupSent',
    description: 'A group as a directory sends it',
    examples: [{ schemas: [scimSchemas.group], displayName: 'Payments on call' }],
  },
);
export type SentGroup = Static<typeof SentGroup>;

const GroupPatch = patchOf('ScimGroupPatch', 'group', {
  op: 'replace',
  path: 'displayName',
  value: 'Payments',
});

const DirectoryRoles = Type.Array(
  Type.Enum(
    tenantRoles.filter((role) => role !== 'tenant_admin') as Exclude<TenantRole, 'tenant_admin'>[],
  ),
  {
    uniqueItems: true,
    maxItems: tenantRoles.length,
    description: 'Roles that its people have by it. No group gives tenant_admin',
  },
);

const DirectoryGroup = TitledObject(
  'DirectoryGroup',
  'A group of the directory, with what it gives',
  {
    id: GroupId,
    display_name: Name,
    external_id: Nullable(described(Short, 'What the directory calls the group')),
    members: Type.Integer({ description: 'How many people are in it' }),
    roles: DirectoryRoles,
    groups: ApproverGroups,
    updated_at: described(Timestamp, 'When it, or what it gives, last changed'),
  },
);

const path = tenantPath;
const groupPath = { ...path, group_id: GroupId };
const view = {
  excludedAttributes: Optional.String({ maxLength: 500, description: '`members` leaves them out' }),
};

export const scimGroupContracts = {
  'tenant-config.scim.groups.list': action({
    ...door,
    summary: 'List the groups of the directory',
    rest: `GET ${base}/Groups`,
    query: {
      filter: Type.Optional(
        described(Filter, '`displayName eq "…"`, `externalId eq "…"` or `id eq "…"`'),
      ),
      ...scimPage,
      ...view,
    },
    result: listOf(ScimGroup, 'ScimGroups'),
  }),
  'tenant-config.scim.groups.create': action({
    ...door,
    summary: 'Provision a group, which gives nothing until an administrator says what',
    rest: `POST ${base}/Groups`,
    leadsTo: 'provisioning',
    body: SentGroup,
    result: ScimGroup,
    response: 'created',
  }),
  'tenant-config.scim.groups.get': action({
    ...door,
    summary: 'A group of the directory',
    rest: `GET ${base}/Groups/{group_id}`,
    path: groupPath,
    query: view,
    result: ScimGroup,
  }),
  'tenant-config.scim.groups.put': action({
    ...door,
    summary: 'Replace what the directory says of a group',
    rest: `PUT ${base}/Groups/{group_id}`,
    leadsTo: 'provisioning',
    path: groupPath,
    body: SentGroup,
    result: ScimGroup,
  }),
  'tenant-config.scim.groups.patch': action({
    ...door,
    summary: 'Change what the directory says of a group',
    rest: `PATCH ${base}/Groups/{group_id}`,
    leadsTo: 'provisioning',
    path: groupPath,
    body: GroupPatch,
    result: ScimGroup,
  }),
  'tenant-config.scim.groups.delete': action({
    ...door,
    summary: 'Deprovision a group: its members lose what it gave',
    rest: `DELETE ${base}/Groups/{group_id}`,
    leadsTo: 'provisioning',
    path: groupPath,
  }),
  'tenant-config.directory-groups.list': listing({
    summary: 'List the groups of the directory, with what each gives',
    rest: 'GET /tenants/{tenant_id}/directory-groups',
    access: tenantAdmins,
    keyScope: 'members:read',
    path,
    items: DirectoryGroup,
  }),
  'tenant-config.directory-groups.put': action({
    summary: 'Say which roles and approver groups the people of a group have by it',
    rest: 'PUT /tenants/{tenant_id}/directory-groups/{group_id}',
    access: tenantAdmins,
    leadsTo: 'sign_in',
    keyScope: 'identity:manage',
    path: groupPath,
    body: StrictObject(
      { roles: DirectoryRoles, groups: ApproverGroups },
      {
        title: 'DirectoryGroupGives',
        description: 'What a group of the directory gives',
        examples: [{ roles: ['operator'], groups: ['payments'] }],
      },
    ),
    result: DirectoryGroup,
  }),
} as const;
