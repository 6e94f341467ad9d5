/** API keys: made, listed, revoked and rotated by a signed-in person, resolved by the gateway. */
import { action, KeyScope, Page, page, keyScopes, type Access } from './contract.ts';
import { CreatedAt, described, Nullable, strict, Timestamp, Uuid, SomeOf } from './fields.ts';
import { authScope } from './revision-scopes.ts';
import { Type } from './type.ts';

const signedIn: Access = { level: 'authenticated' };
const Scopes = Type.Array(KeyScope, {
  description: "What it may do, within its owner's roles at the time of use",
});
const keyPath = { key_id: described(Uuid, "The API key's id") };

const key = {
  id: described(Uuid, 'Names the key'),
  prefix: Type.String({ description: 'How the key begins' }),
  name: Type.String({ description: 'What its owner calls it' }),
  scopes: Scopes,
  tenant_id: described(Nullable(Uuid), 'Of the tenant that it acts in; null for the platform'),
  expires_at: described(Timestamp, 'When it ends'),
  created_at: CreatedAt,
};
export const IssuedApiKey = Type.Object(
  { ...key, api_key: Type.String({ description: 'The key itself, shown this once' }) },
  { ...strict, title: 'IssuedApiKey', description: 'A new API key, with its secret' },
);
export const ApiKey = Type.Object(
  {
    ...key,
    last_used_at: described(
      Nullable(Timestamp),
      'When it was last used, to the minute; null: never',
    ),
  },
  { ...strict, title: 'ApiKey', description: 'An API key, without its secret' },
);
/** What is asked for. */
export const NewApiKey = Type.Object(
  {
    name: Type.String({
      minLength: 1,
      maxLength: 100,
      pattern: '^[^\\x00-\\x1f\\x7f]*$',
      description: 'What its owner calls it',
      examples: ['deploy-pipeline'],
    }),
    scopes: Type.Optional(
      SomeOf(keyScopes, {
        minItems: 1,
        description: 'What it may do; config:read unless told',
      }),
    ),
    expires_in_days: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 365, default: 90, description: 'Days until it ends' }),
    ),
  },
  { ...strict, title: 'NewApiKey', description: 'An API key that is asked for' },
);
/** Where every node caches what it knows of an API key. */
export const apiKeyCacheKey = ({ key_id: id }: { key_id: string }): string => `api_key_${id}`;

export const apiKeyContracts = {
  'auth.api-key.create': action({
    summary: 'Make an API key for the tenant of this session',
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
  'auth.api-key.list': action({
    summary: 'My API keys',
    rest: 'GET /auth/api-keys',
    access: signedIn,
    keyScope: null,
    query: page,
    result: Page(ApiKey),
    response: 'list',
  }),
  'auth.api-key.revoke': action({
    summary: 'Revoke one of my API keys',
    rest: 'DELETE /auth/api-keys/{key_id}',
    access: signedIn,
    leadsTo: 'removal',
    keyScope: null,
    path: keyPath,
    result: Type.Null(),
    response: 'nothing',
    drops: (params) => [apiKeyCacheKey(params)],
  }),
  'auth.api-key.rotate': action({
    summary: 'Give one of my API keys a new secret; the old one ends',
    rest: 'POST /auth/api-keys/{key_id}/rotate',
    access: signedIn,
    leadsTo: 'credentials',
    keyScope: null,
    path: keyPath,
    result: IssuedApiKey,
    response: 'created',
    drops: (params) => [apiKeyCacheKey(params)],
  }),
  'auth.api-key.resolve': action({
    summary: 'An API key as the gateway needs it',
    access: { level: 'internal' },
    path: keyPath,
    result: Type.Object(
      {
        /** Whose it is: a person's, or a service account's of the tenant. */
        owner: Type.Object({ type: Type.Enum(['user', 'service_account']), id: Uuid }, strict),
        tenant_id: Nullable(Uuid),
        platform_roles: Type.Array(Type.String()),
        name: Type.String(),
        /** Who made it; null for a service account's key from before that was kept. */
        made_by: Nullable(Type.String()),
        scopes: Scopes,
        hash: Type.String(),
        expires_at: Timestamp,
        usable: Type.Boolean(),
      },
      strict,
    ),
    cache: { cache: 'identity', key: apiKeyCacheKey, revisionScopes: () => [authScope] },
  }),
  'auth.api-key.used': action({
    summary: 'Note that an API key was used',
    access: { level: 'internal' },
    path: keyPath,
    result: Type.Null(),
  }),
} as const;
