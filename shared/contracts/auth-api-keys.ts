/** API keys: made, listed, revoked and rotated by a signed-in person, resolved by the gateway. */
import { Type } from 'typebox';
import { AuditFacts } from './audit.ts';
import { action, internal, type Access } from './contract.ts';
import { KeyScope, keyScopes } from './roles.ts';
import { listing } from './envelopes.ts';
import {
  CreatedAt,
  described,
  Email,
  Nullable,
  Optional,
  SomeOf,
  StrictObject,
  Timestamp,
  TitledObject,
  Uuid,
} from './fields.ts';
import { NarrowedTo } from './narrow-keys.ts';
import { authScope } from './revision-scopes.ts';
import { SignInMethod } from './sign-in-policy.ts';
import { tenantAdmins, tenantPath } from './tenant-document.ts';

const signedIn: Access = { level: 'authenticated' };
const Scopes = Type.Array(KeyScope, {
  description: "Scopes, within its owner's roles at the time of use",
});
const keyPath = { key_id: described(Uuid, "The API key's id") };

const key = {
  id: described(Uuid, 'Id of the key'),
  prefix: Type.String({ description: 'Prefix of the key' }),
  name: Type.String({ description: 'What its owner calls it' }),
  scopes: Scopes,
  narrowed_to: Type.Optional(described(NarrowedTo, 'Absent: it is for all that its scopes open')),
  tenant_id: described(Nullable(Uuid), 'Of the tenant that it acts in; null for the platform'),
  expires_at: described(Timestamp, 'When it expires'),
  created_at: CreatedAt,
};
export const IssuedApiKey = TitledObject('IssuedApiKey', 'A new API key, with its secret', {
  ...key,
  api_key: Type.String({ description: 'The key itself, shown this once' }),
});
export const ApiKey = TitledObject('ApiKey', 'An API key, without its secret', {
  ...key,
  last_used_at: described(Nullable(Timestamp), 'When it was last used, to the minute; null: never'),
  made_with: described(
    Nullable(SignInMethod),
    'How the person who made it, or gave it its secret, was signed in; null if that was not kept yet',
  ),
});
/** Whose a key is. */
const Owner = StrictObject({
  type: Type.Enum(['user', 'service_account'], { description: 'A person, or a service account' }),
  id: described(Uuid, "The account's id"),
});
/** A key that a session by password alone made, as it is listed for the tenant's administrators. */
const PasswordKey = TitledObject(
  'PasswordKey',
  'An API key that somebody made who was signed in by password alone',
  {
    id: key.id,
    prefix: key.prefix,
    name: key.name,
    scopes: key.scopes,
    narrowed_to: key.narrowed_to,
    owner: described(Owner, 'Whose it is'),
    email: described(Nullable(Email), "The person's address; null for a service account"),
    made_with: ApiKey.properties.made_with,
    created_at: key.created_at,
    expires_at: key.expires_at,
    last_used_at: ApiKey.properties.last_used_at,
  },
);
/** A key as the gateway needs it. */
export const ResolvedKey = StrictObject({
  /** Whose it is: a person's, or a service account's of the tenant. */
  owner: Owner,
  tenant_id: Nullable(Uuid),
  platform_roles: Type.Array(Type.String()),
  name: Type.String(),
  /** Who made it; null for a service account's key from before that was kept. */
  made_by: Nullable(Type.String()),
  /** As of the session that made it: the tenant that it is good for and no other. */
  confined_to: Type.Optional(Uuid),
  scopes: Scopes,
  narrowed_to: Type.Optional(NarrowedTo),
  hash: Type.String(),
  expires_at: Timestamp,
  usable: Type.Boolean(),
});
/** How many of them an answer lists. */
export const maxPasswordKeysShown = 100;
export const PasswordKeys = TitledObject(
  'PasswordKeys',
  'API keys for the tenant that people made who were signed in by password alone',
  {
    count: Type.Integer({ minimum: 0, description: 'How many there are, or were until now' }),
    ended: Type.Boolean({ description: 'They were ended; else they stay good' }),
    items: Type.Array(PasswordKey, {
      maxItems: maxPasswordKeysShown,
      description: `The first ${maxPasswordKeysShown} of them`,
    }),
  },
);

export const NewApiKey = TitledObject('NewApiKey', 'An API key that is asked for', {
  name: Type.String({
    minLength: 1,
    maxLength: 100,
    pattern: '^[^\\x00-\\x1f\\x7f]*$',
    description: 'What its owner calls it',
    examples: ['deploy-pipeline'],
  }),
  scopes: Type.Optional(
    SomeOf(keyScopes, { minItems: 1, description: 'What it may do; config:read by default' }),
  ),
  narrowed_to: Type.Optional(described(NarrowedTo, 'What it is for; all by default')),
  expires_in_days: Optional.Integer({
    minimum: 1,
    maximum: 365,
    default: 90,
    description: 'Days until it ends',
  }),
});
/** Where every node caches what it knows of an API key. */
export const apiKeyCacheKey = ({ key_id: id }: { key_id: string }): string => `api_key_${id}`;

export const apiKeyContracts = {
  'auth.api-key.create': action({
    summary: 'Create an API key for the tenant of this session',
    rest: 'POST /auth/api-key',
    access: signedIn,
    leadsTo: 'credentials',
    keyScope: null,
    body: NewApiKey,
    result: IssuedApiKey,
    response: 'created',
    failures: {
      database: 'auth_api_key_internal_error',
      unexpected: 'auth_api_key_internal_error',
    },
  }),
  'auth.api-key.list': listing({
    summary: 'My API keys',
    rest: 'GET /auth/api-keys',
    access: signedIn,
    keyScope: null,
    items: ApiKey,
  }),
  'auth.api-key.revoke': action({
    summary: 'Revoke one of my API keys',
    rest: 'DELETE /auth/api-keys/{key_id}',
    access: signedIn,
    leadsTo: 'removal',
    keyScope: null,
    path: keyPath,
    drops: (params) => [apiKeyCacheKey(params)],
  }),
  'auth.api-key.rotate': action({
    summary: 'Rotate one of my API keys; the old secret is revoked',
    rest: 'POST /auth/api-keys/{key_id}/rotate',
    access: signedIn,
    leadsTo: 'credentials',
    keyScope: null,
    path: keyPath,
    result: IssuedApiKey,
    response: 'created',
    drops: (params) => [apiKeyCacheKey(params)],
  }),
  'auth.api-key.resolve': internal({
    summary: 'An API key as the gateway needs it',
    path: keyPath,
    result: ResolvedKey,
    cache: { cache: 'identity', key: apiKeyCacheKey, revisionScopes: () => [authScope] },
  }),
  'auth.api-key.by-password': listing({
    summary:
      'API keys of the tenant that were created after a sign-in by password alone, or of an unknown kind',
    rest: 'GET /tenants/{tenant_id}/password-keys',
    access: tenantAdmins,
    keyScope: 'members:read',
    path: tenantPath,
    items: PasswordKey,
  }),
  'auth.api-key.settle-by-password': internal({
    summary: 'Say which those are, or end them, as the tenant now wants stronger sign-ins',
    path: tenantPath,
    body: StrictObject({ end: Type.Boolean(), actor: AuditFacts.properties.actor }),
    result: PasswordKeys,
  }),
  'auth.api-key.used': internal({
    summary: 'Note that an API key was used',
    path: keyPath,
  }),
} as const;
