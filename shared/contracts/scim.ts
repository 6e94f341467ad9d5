/**
 * The door for directories: SCIM 2.0 (RFC 7643, 7644) per tenant. A directory, such as Entra or Okta,
 * says who belongs to the tenant; it is given `BASE_URL/tenants/{tenant_id}/scim/v2` and an API key
 * with the scope `scim:provision`. A user of SCIM is a membership and what the directory calls it:
 * the account behind it is the person's, and stays as it is.
 */
import { Type, type Static } from 'typebox';
import { action, type Access } from './contract.ts';
import {
  described,
  DescribedObject,
  Nullable,
  Optional,
  StrictObject,
  TenantId,
  Timestamp,
  TitledObject,
  UserId,
} from './fields.ts';

export const scimMediaType = 'application/scim+json';

export const scimSchemas = {
  user: 'urn:ietf:params:scim:schemas:core:2.0:User',
  group: 'urn:ietf:params:scim:schemas:core:2.0:Group',
  enterpriseUser: 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User',
  list: 'urn:ietf:params:scim:api:messages:2.0:ListResponse',
  patch: 'urn:ietf:params:scim:api:messages:2.0:PatchOp',
  error: 'urn:ietf:params:scim:api:messages:2.0:Error',
} as const;

/** The most of one page, and the most operations of one PATCH. */
export const mostListed = 200;
const mostOperations = 100;

export const Urns = Type.Array(Type.String({ maxLength: 200 }), {
  maxItems: 20,
  description: 'URNs of its schemas',
});
export const Short = Type.String({ maxLength: 256 });

export const Meta = (resourceType: 'User' | 'Group') =>
  DescribedObject('What SCIM says of every resource', {
    resourceType: Type.Literal(resourceType, { description: `Always ${resourceType}` }),
    created: described(Timestamp, 'When the directory made it'),
    lastModified: described(Timestamp, 'When the directory last changed it'),
    location: Type.String({ description: 'Its address' }),
  });

const Name = TitledObject('ScimName', 'The name of a person (SCIM)', {
  formatted: Type.Optional(described(Short, 'The whole name')),
  givenName: Type.Optional(described(Short, 'The first name')),
  familyName: Type.Optional(described(Short, 'The last name')),
});

const ScimUser = TitledObject('ScimUser', 'A person of a tenant, as its directory knows them', {
  schemas: Urns,
  id: UserId,
  externalId: Type.Optional(described(Short, 'What the directory calls the person')),
  userName: described(Short, 'The mail address by which the person signs in'),
  name: Type.Optional(Name),
  displayName: Type.Optional(described(Short, 'The name to show')),
  active: Type.Boolean({ description: 'Whether they are a member, or invited to be one' }),
  emails: Type.Array(
    StrictObject({
      value: Type.String({ description: 'The userName' }),
      type: Type.Literal('work', { description: 'Always work' }),
      primary: Type.Literal(true, { description: 'Always true' }),
    }),
    { description: 'The userName, as a mail address' },
  ),
  meta: Meta('User'),
});

/** SCIM's bodies may say more than is kept. */
export const protocol = { additionalProperties: true } as const;

const Active = Type.Union([Type.Boolean(), Type.Enum(['true', 'false', 'True', 'False'])], {
  description: 'False ends the membership. Entra sends it as a text',
});
const SentName = Type.Object(
  {
    formatted: Type.Optional(Nullable(described(Short, 'The whole name'))),
    givenName: Type.Optional(Nullable(described(Short, 'The first name'))),
    familyName: Type.Optional(Nullable(described(Short, 'The last name'))),
  },
  { ...protocol, description: 'The name of the person' },
);
const SentUser = Type.Object(
  {
    schemas: Type.Optional(Urns),
    userName: Type.String({
      format: 'email',
      maxLength: 254,
      description: 'The mail address by which the person signs in',
      examples: ['ada@example.com'],
    }),
    externalId: Type.Optional(Nullable(described(Short, 'What the directory calls the person'))),
    active: Type.Optional(Active),
    displayName: Type.Optional(Nullable(described(Short, 'The name to show'))),
    name: Type.Optional(Nullable(SentName)),
  },
  {
    ...protocol,
    title: 'ScimUserSent',
    description: 'A person as a directory sends them; other attributes of the core are not kept',
    examples: [{ schemas: [scimSchemas.user], userName: 'ada@example.com', active: true }],
  },
);
export type SentUser = Static<typeof SentUser>;

const Operation = Type.Object(
  {
    op: Type.Enum(['add', 'replace', 'remove', 'Add', 'Replace', 'Remove'], {
      description: 'What is done; Entra begins it with a capital',
    }),
    path: Optional.String({
      maxLength: 500,
      description: 'Which attribute; absent: those that value names',
    }),
    value: Optional.Unknown({ description: 'The new value' }),
  },
  { ...protocol, title: 'ScimOperation', description: 'One change of a PATCH (SCIM)' },
);
export type ScimOperation = Static<typeof Operation>;

/** A PATCH of a person or a group. */
export const patchOf = (title: string, what: string, example: ScimOperation) =>
  Type.Object(
    {
      schemas: Type.Optional(Urns),
      Operations: Type.Array(Operation, {
        minItems: 1,
        maxItems: mostOperations,
        description: 'All of them are done, or none',
      }),
    },
    {
      ...protocol,
      title,
      description: `Changes of a ${what} (SCIM)`,
      examples: [{ schemas: [scimSchemas.patch], Operations: [example] }],
    },
  );
const UserPatch = patchOf('ScimPatch', 'person', { op: 'replace', path: 'active', value: false });

export const listOf = <T extends Parameters<typeof Type.Array>[0]>(item: T, title: string) =>
  TitledObject(title, 'A page of a list (SCIM)', {
    schemas: Urns,
    totalResults: Type.Integer({ description: 'How many there are in all' }),
    startIndex: Type.Integer({ description: 'Which of them is the first here, from 1' }),
    itemsPerPage: Type.Integer({ description: 'How many are here' }),
    Resources: Type.Array(item, { description: 'Those of this page' }),
  });

const Described = Type.Record(Type.String(), Type.Unknown(), {
  description: 'As in RFC 7643, sections 5 to 7',
});

export const Filter = Type.String({ maxLength: 1000 });
export const scimPage = {
  startIndex: Optional.Integer({
    description: 'Which is the first, from 1; less counts as 1',
  }),
  count: Optional.Integer({
    description: `How many; less than 0 counts as 0, and more than ${mostListed} are never sent`,
  }),
};

/** A tenant's key of this scope does nothing else, and no other key does this. */
const access = { level: 'tenant', roles: ['tenant_admin'] } as const satisfies Access;
export const base = '/tenants/{tenant_id}/scim/v2';
const path = { tenant_id: TenantId };
const userPath = { ...path, user_id: UserId };
export const door = { access, keyScope: 'scim:provision', errors: 'scim', path } as const;

export const scimContracts = {
  'tenant-config.scim.service-provider-config': action({
    ...door,
    summary: 'Supported features of SCIM',
    rest: `GET ${base}/ServiceProviderConfig`,
    result: Described,
  }),
  'tenant-config.scim.resource-types': action({
    ...door,
    summary: 'Which resources SCIM has',
    rest: `GET ${base}/ResourceTypes`,
    result: listOf(Described, 'ScimResourceTypes'),
  }),
  'tenant-config.scim.schemas': action({
    ...door,
    summary: 'Which attributes SCIM keeps',
    rest: `GET ${base}/Schemas`,
    result: listOf(Described, 'ScimSchemas'),
  }),
  'tenant-config.scim.users.list': action({
    ...door,
    summary: 'List the people whom the directory provisioned',
    rest: `GET ${base}/Users`,
    query: {
      filter: Type.Optional(
        described(Filter, '`userName eq "…"`, `externalId eq "…"` or `id eq "…"`'),
      ),
      ...scimPage,
    },
    result: listOf(ScimUser, 'ScimUsers'),
  }),
  'tenant-config.scim.users.create': action({
    ...door,
    summary:
      'Provision a person: a viewer immediately where the tenant owns the domain, else invited',
    rest: `POST ${base}/Users`,
    leadsTo: 'provisioning',
    body: SentUser,
    result: ScimUser,
    response: 'created',
  }),
  'tenant-config.scim.users.get': action({
    ...door,
    summary: 'A person whom the directory provisioned',
    rest: `GET ${base}/Users/{user_id}`,
    path: userPath,
    result: ScimUser,
  }),
  'tenant-config.scim.users.put': action({
    ...door,
    summary: 'Replace what the directory says of a person',
    rest: `PUT ${base}/Users/{user_id}`,
    leadsTo: 'provisioning',
    path: userPath,
    body: SentUser,
    result: ScimUser,
  }),
  'tenant-config.scim.users.patch': action({
    ...door,
    summary: 'Change what the directory says of a person',
    rest: `PATCH ${base}/Users/{user_id}`,
    leadsTo: 'provisioning',
    path: userPath,
    body: UserPatch,
    result: ScimUser,
  }),
  'tenant-config.scim.users.delete': action({
    ...door,
    summary: 'Deprovision a person: the membership ends, the account stays',
    rest: `DELETE ${base}/Users/{user_id}`,
    leadsTo: 'provisioning',
    path: userPath,
  }),
} as const;
