/**
 * Service accounts: principals of a tenant that are no people. They call with API keys of their
 * own, which outlive whoever made them. The accounts are `tenant-config`'s, as memberships are;
 * their keys are `auth`'s, as all keys are.
 */
import { Type } from 'typebox';
import { ApiKey, apiKeyCacheKey, IssuedApiKey, NewApiKey } from './auth-api-keys.ts';
import { exceedViewer, inBody, type PowerfulFor } from './consequences.ts';
import { action, internal } from './contract.ts';
import { GivenRoles } from './roles.ts';
import { listing } from './envelopes.ts';
import {
  Author,
  CreatedAt,
  described,
  Line,
  Nullable,
  StrictObject,
  TitledObject,
  UpdatedAt,
  Uuid,
} from './fields.ts';
import { memberScope } from './revision-scopes.ts';
import { tenantAdmins, tenantPath } from './tenant-document.ts';

/** How many keys an account has at most. */
export const maxKeysOfServiceAccount = 20;

const Status = Type.Enum(['active', 'disabled'], {
  description: 'One that is disabled can do nothing',
});
export const ServiceAccount = TitledObject(
  'ServiceAccount',
  'A principal of a tenant that is no person',
  {
    id: described(Uuid, "The service account's id"),
    name: Type.String({ description: 'For people', examples: ['deploy-pipeline'] }),
    description: Nullable(Type.String({ description: 'What it is for' })),
    roles: GivenRoles,
    status: Status,
    created_by: Author,
    created_at: CreatedAt,
    updated_at: UpdatedAt,
  },
);
const Name = described(Line(100, 'For people'), 'For people', 'deploy-pipeline');
const Description = Nullable(Line(500, 'What it is for'));

const accounts = '/tenants/{tenant_id}/service-accounts';
const accountPath = { ...tenantPath, account_id: described(Uuid, "The service account's id") };
export interface AccountAddress {
  readonly tenant_id: string;
  readonly account_id: string;
}
export const serviceAccountKey = ({ tenant_id, account_id }: AccountAddress): string =>
  `service_account_${tenant_id}_${account_id}`;

/** Where it makes a principal that decides or changes anything, or gives one its rights back. */
const givesRoles: PowerfulFor = {
  power: 'credentials',
  otherwise: 'operations',
  where: 'it gives a role above viewer, or makes the account active',
  includes: (params) =>
    exceedViewer(inBody(params, 'roles')) || inBody(params, 'status') === 'active',
};

export const serviceAccountContracts = {
  'tenant-config.service-accounts.list': listing({
    summary: 'List service accounts',
    rest: `GET ${accounts}`,
    access: tenantAdmins,
    keyScope: 'members:read',
    path: tenantPath,
    items: ServiceAccount,
  }),
  'tenant-config.service-accounts.create': action({
    summary: 'Create a service account; at most SERVICE_ACCOUNTS_PER_TENANT',
    rest: `POST ${accounts}`,
    access: tenantAdmins,
    leadsTo: givesRoles,
    keyScope: 'members:write',
    path: tenantPath,
    body: StrictObject({ name: Name, description: Type.Optional(Description), roles: GivenRoles }),
    result: ServiceAccount,
    response: 'created',
  }),
  'tenant-config.service-accounts.patch': action({
    summary: "Change a service account's name, description or roles; disable or enable it",
    rest: `PATCH ${accounts}/{account_id}`,
    access: tenantAdmins,
    leadsTo: givesRoles,
    keyScope: 'members:write',
    path: accountPath,
    body: StrictObject(
      {
        name: Type.Optional(Name),
        description: Type.Optional(Description),
        roles: Type.Optional(GivenRoles),
        status: Type.Optional(Status),
      },
      {
        minProperties: 1,
        title: 'ServiceAccountPatch',
        description: 'Changes to a service account',
      },
    ),
    result: ServiceAccount,
    drops: (params) => [serviceAccountKey(params)],
  }),
  'tenant-config.service-accounts.delete': action({
    summary: 'Remove a service account and revoke its API keys',
    rest: `DELETE ${accounts}/{account_id}`,
    access: tenantAdmins,
    leadsTo: 'removal',
    keyScope: 'members:write',
    path: accountPath,
    drops: (params) => [serviceAccountKey(params)],
  }),
  'tenant-config.service-accounts.resolve': internal({
    summary: 'A service account as the gateway needs it',
    path: accountPath,
    result: StrictObject({
      tenant_id: Uuid,
      tenant_name: Type.String(),
      tenant_status: Status,
      account_id: Uuid,
      name: Type.String(),
      status: Status,
      roles: GivenRoles,
    }),
    cache: {
      cache: 'identity',
      key: serviceAccountKey,
      revisionScopes: ({ tenant_id }) => [memberScope(tenant_id)],
    },
  }),

  'auth.service-account-key.create': action({
    summary: `Create an API key of a service account; at most ${maxKeysOfServiceAccount} that have not expired`,
    rest: `POST ${accounts}/{account_id}/api-keys`,
    access: tenantAdmins,
    leadsTo: 'credentials',
    keyScope: null,
    path: accountPath,
    body: NewApiKey,
    result: IssuedApiKey,
    response: 'created',
  }),
  'auth.service-account-key.list': listing({
    summary: 'API keys of a service account',
    rest: `GET ${accounts}/{account_id}/api-keys`,
    access: tenantAdmins,
    keyScope: 'members:read',
    path: accountPath,
    items: ApiKey,
  }),
  'auth.service-account-key.revoke': action({
    summary: 'Revoke an API key of a service account',
    rest: `DELETE ${accounts}/{account_id}/api-keys/{key_id}`,
    access: tenantAdmins,
    leadsTo: 'removal',
    keyScope: 'members:write',
    path: { ...accountPath, key_id: described(Uuid, "The API key's id") },
    drops: (params) => [apiKeyCacheKey(params)],
  }),
  'auth.service-account-key.revoke-all': internal({
    summary: 'Revoke every API key and every trust of a service account that is being removed',
    path: accountPath,
  }),
} as const;
