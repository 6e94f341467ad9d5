/** How SCIM shows people, and itself (RFC 7643). */
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { mostListed, scimSchemas } from '../../../shared/contracts/scim.ts';
import type { ScimUserRow } from '../schema.ts';
import type { ScimProfile, ScimState } from './scim.ts';

type ScimUser = ResultOf<'tenant-config.scim.users.get'>;
type Row = ScimUserRow & { readonly active: boolean };

export const stateOfRow = ({ user_name, external_id, profile, active }: Row): ScimState => ({
  userName: user_name,
  externalId: external_id,
  displayName: profile.displayName,
  formatted: profile.formatted,
  givenName: profile.givenName,
  familyName: profile.familyName,
  active,
});

/** What is null is not there. */
export const present = <T extends object>(value: T): { [K in keyof T]?: NonNullable<T[K]> } =>
  Object.fromEntries(Object.entries(value).filter(([, each]) => each !== null)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };

function nameOf({ formatted, givenName, familyName }: ScimProfile): Pick<ScimUser, 'name'> {
  const name = present({ formatted, givenName, familyName });
  return Object.keys(name).length === 0 ? {} : { name };
}

export const scimUser = (row: Row, baseUrl: string): ScimUser => ({
  schemas: [scimSchemas.user],
  id: row.user_id,
  ...present({ externalId: row.external_id, displayName: row.profile.displayName }),
  userName: row.user_name,
  ...nameOf(row.profile),
  active: row.active,
  emails: [{ value: row.user_name, type: 'work', primary: true }],
  meta: {
    resourceType: 'User',
    created: row.created_at.toISOString(),
    lastModified: row.updated_at.toISOString(),
    location: `${baseUrl}/tenants/${row.tenant_id}/scim/v2/Users/${row.user_id}`,
  },
});

export const listed = <T>(resources: T[], total = resources.length, startIndex = 1) => ({
  schemas: [scimSchemas.list],
  totalResults: total,
  startIndex,
  itemsPerPage: resources.length,
  Resources: resources,
});

const text = (name: string, description: string, more: object = {}): object => ({
  name,
  type: 'string',
  multiValued: false,
  description,
  required: false,
  caseExact: false,
  mutability: 'readWrite',
  returned: 'default',
  uniqueness: 'none',
  ...more,
});

export const described = {
  provider: {
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig'],
    patch: { supported: true },
    bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
    filter: { supported: true, maxResults: mostListed },
    changePassword: { supported: false },
    sort: { supported: false },
    etag: { supported: false },
    authenticationSchemes: [
      {
        type: 'oauthbearertoken',
        name: 'API key',
        description: 'An API key of a service account, with the scope scim:provision',
        primary: true,
      },
    ],
  },
  resourceTypes: (baseUrl: string, tenantId: string): Record<string, unknown>[] =>
    (
      [
        ['User', 'A person of the tenant', scimSchemas.user],
        ['Group', 'A group of people of the tenant', scimSchemas.group],
      ] as const
    ).map(([name, description, schema]) => ({
      schemas: ['urn:ietf:params:scim:schemas:core:2.0:ResourceType'],
      id: name,
      name,
      endpoint: `/${name}s`,
      description,
      schema,
      meta: {
        resourceType: 'ResourceType',
        location: `${baseUrl}/tenants/${tenantId}/scim/v2/ResourceTypes/${name}`,
      },
    })),
  groupSchema: {
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:Schema'],
    id: scimSchemas.group,
    name: 'Group',
    description: 'A group of people of the tenant',
    attributes: [
      text('displayName', 'The name of the group', { required: true }),
      text('externalId', 'What the directory calls the group', {
        caseExact: true,
        uniqueness: 'server',
      }),
      {
        ...text('members', 'Who is in it'),
        type: 'complex',
        multiValued: true,
        subAttributes: [
          text('value', 'The id of a user', { mutability: 'immutable' }),
          text('display', 'The userName', { mutability: 'readOnly' }),
        ],
      },
    ],
  },
  userSchema: {
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:Schema'],
    id: scimSchemas.user,
    name: 'User',
    description: 'A person of the tenant',
    attributes: [
      text('userName', 'The mail address by which the person signs in', {
        required: true,
        mutability: 'immutable',
        uniqueness: 'server',
      }),
      text('externalId', 'What the directory calls the person', {
        caseExact: true,
        uniqueness: 'server',
      }),
      text('displayName', 'The name to show'),
      {
        ...text('name', 'The name of the person'),
        type: 'complex',
        subAttributes: [
          text('formatted', 'The whole name'),
          text('givenName', 'The first name'),
          text('familyName', 'The last name'),
        ],
      },
      { ...text('active', 'Whether the person is a member, or invited'), type: 'boolean' },
      {
        ...text('emails', 'The userName, as a mail address', { mutability: 'readOnly' }),
        type: 'complex',
        multiValued: true,
        subAttributes: [text('value', 'The address', { mutability: 'readOnly' })],
      },
    ],
  },
};
