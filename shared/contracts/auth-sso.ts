/** Signing in through identity providers (OpenID Connect). */
import { Type } from 'typebox';
import { TokenResponse } from './auth.ts';
import { action, Page, page, tenantRoles, type Access } from './contract.ts';
import { Email, Nullable, strict, Timestamp, Uuid, SomeOf } from './fields.ts';

const Name = Type.String({ minLength: 1, maxLength: 200 });
const Address = Type.String({ minLength: 1, maxLength: 500, format: 'uri' });
const Domain = Type.String({
  maxLength: 253,
  pattern: '^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$',
  description: 'In lower case; in ASCII where it is international',
});

const Domains = Type.Array(
  Type.Object(
    {
      domain: Domain,
      verified: Type.Boolean({
        description:
          'Its owner was checked: only then does an e-mail address of it identify an account',
      }),
    },
    strict,
  ),
  { maxItems: 100 },
);
const RedirectUris = Type.Array(Address, {
  minItems: 1,
  maxItems: 20,
  uniqueItems: true,
  description: 'Where the provider may send people back to',
});
const Roles = SomeOf(tenantRoles, {
  description: 'Roles in the tenant for people who are provisioned',
});

const Provider = Type.Object(
  {
    id: Uuid,
    name: Name,
    issuer: Address,
    client_id: Type.String(),
    client_secret: Type.String({ description: 'Always the mask' }),
    tenant_id: Nullable(Uuid),
    domains: Domains,
    jit_enabled: Type.Boolean(),
    default_roles: Roles,
    redirect_uris: RedirectUris,
    enabled: Type.Boolean(),
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  strict,
);
const ProviderBody = Type.Object(
  {
    name: Name,
    issuer: Address,
    client_id: Type.String({ minLength: 1, maxLength: 200 }),
    client_secret: Type.String({
      minLength: 1,
      maxLength: 500,
      description: 'Kept where the mask is written back and the issuer stays',
    }),
    tenant_id: Type.Optional(Nullable(Uuid)),
    domains: Type.Optional(Domains),
    jit_enabled: Type.Optional(
      Type.Boolean({
        description: 'Makes an account, with membership in the tenant, at the first sign-in',
      }),
    ),
    default_roles: Type.Optional(Roles),
    redirect_uris: RedirectUris,
    enabled: Type.Optional(Type.Boolean()),
  },
  strict,
);

const Challenge = Type.String({
  pattern: '^[A-Za-z0-9_-]{43}$',
  description: 'base64url(SHA-256(client_verifier)), RFC 7636',
});
const Started = Type.Object(
  { authorization_url: Type.String(), state: Type.String(), expires_in: Type.Integer() },
  strict,
);

const open: Access = { level: 'public' };
const admins: Access = { level: 'platform_admin' };
const providers = '/auth/sso/providers';
const provider = '/auth/sso/providers/{id}';

export const ssoContracts = {
  'auth.login.sso.start': action({
    summary: 'Begin to sign in through an identity provider',
    rest: 'POST /auth/login/sso/start',
    access: open,
    networkLimited: 'calls',
    body: Type.Object(
      {
        provider_id: Type.Optional(Uuid),
        email: Type.Optional(Email),
        redirect_uri: Type.String({ maxLength: 500 }),
        client_challenge: Challenge,
      },
      strict,
    ),
    result: Started,
  }),
  'auth.login.sso': action({
    summary: 'Sign in with what the identity provider sent back',
    rest: 'POST /auth/login/sso',
    access: open,
    body: Type.Object(
      {
        code: Type.String({ minLength: 1, maxLength: 4096 }),
        state: Type.String({ minLength: 1, maxLength: 500 }),
        client_verifier: Type.String({ pattern: '^[A-Za-z0-9._~-]{43,128}$' }),
        iss: Type.Optional(
          Type.String({
            maxLength: 500,
            description:
              'As the provider sent it (RFC 9207); required where it says that it sends it',
          }),
        ),
      },
      strict,
    ),
    result: TokenResponse,
    response: 'token',
    failures: { database: 'auth_sso_db_error', unexpected: 'auth_sso_internal_error' },
  }),
  'auth.sso.link': action({
    summary:
      'Begin to link an identity at a provider with this account; ends with POST /auth/login/sso',
    rest: 'POST /auth/sso/link',
    access: { level: 'authenticated', recent: true },
    keyScope: null,
    body: Type.Object(
      {
        provider_id: Uuid,
        redirect_uri: Type.String({ maxLength: 500 }),
        client_challenge: Challenge,
      },
      strict,
    ),
    result: Started,
  }),
  'auth.sso.providers.list': action({
    summary: 'List identity providers; with an e-mail address, those of its domain',
    rest: `GET ${providers}`,
    access: { level: 'platform_admin', publicWith: 'email' },
    keyScope: 'platform:read',
    query: { ...page, email: Type.Optional(Email) },
    result: Type.Union([Page(Provider), Page(Type.Object({ id: Uuid, name: Name }, strict))]),
  }),
  'auth.sso.providers.domains': action({
    summary: "Domains that a tenant's enabled providers have verified",
    access: { level: 'internal' },
    changesNothing: true,
    path: { tenant_id: Uuid },
    result: Type.Array(Type.String()),
  }),
  'auth.sso.providers.get': action({
    summary: 'Read an identity provider',
    rest: `GET ${provider}`,
    access: admins,
    keyScope: 'platform:read',
    path: { id: Uuid },
    result: Provider,
  }),
  'auth.sso.providers.create': action({
    summary: 'Add an identity provider',
    rest: `POST ${providers}`,
    access: admins,
    keyScope: 'platform:write',
    body: ProviderBody,
    result: Provider,
    response: 'created',
  }),
  'auth.sso.providers.put': action({
    summary: 'Replace an identity provider',
    rest: `PUT ${provider}`,
    access: admins,
    keyScope: 'platform:write',
    path: { id: Uuid },
    body: ProviderBody,
    result: Provider,
  }),
  'auth.sso.providers.delete': action({
    summary: 'Remove an identity provider',
    rest: `DELETE ${provider}`,
    access: admins,
    keyScope: 'platform:write',
    path: { id: Uuid },
    result: Type.Null(),
    response: 'nothing',
  }),
} as const;
