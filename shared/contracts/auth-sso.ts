/** Signing in through identity providers (OpenID Connect). */
import { Type } from 'typebox';
import { TokenResponse } from './auth.ts';
import { action, internalRead, type Access } from './contract.ts';
import { tenantRoles } from './roles.ts';
import { Page, page } from './envelopes.ts';
import {
  CreatedAt,
  described,
  Email,
  Nullable,
  Optional,
  SomeOf,
  StrictObject,
  TitledObject,
  UpdatedAt,
  Uuid,
} from './fields.ts';

const Name = Type.String({
  minLength: 1,
  maxLength: 200,
  description: 'What people see',
  examples: ['Acme single sign-on'],
});
const Address = (description: string, example: string) =>
  Type.String({ minLength: 1, maxLength: 500, format: 'uri', description, examples: [example] });
const Issuer = Address('Its issuer, as it names itself', 'https://login.acme.example');
const callback = 'https://app.acme.example/signed-in';
const ProviderId = described(Uuid, "The identity provider's id");
const ClientId = (options: { readonly minLength?: number; readonly maxLength?: number } = {}) =>
  Type.String({ ...options, description: 'What it calls Strata', examples: ['strata'] });
const RedirectUri = Type.String({
  maxLength: 500,
  description: "Redirect URI, one of the provider's `redirect_uris`",
  examples: [callback],
});
const Domain = Type.String({
  maxLength: 253,
  pattern: '^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$',
  description: 'In lower case; in ASCII where it is international',
  examples: ['acme.example'],
});

const Domains = Type.Array(
  TitledObject('ProviderDomain', 'A domain of mail addresses', {
    domain: Domain,
    verified: Type.Boolean({
      description:
        'Its owner was checked: only then does an e-mail address of it identify an account',
    }),
  }),
  { maxItems: 100, description: 'Domains whose people it signs in' },
);
const RedirectUris = Type.Array(Address('An address of the application', callback), {
  minItems: 1,
  maxItems: 20,
  uniqueItems: true,
  description: 'Where the provider may send people back to',
});
const Roles = SomeOf(tenantRoles, {
  description: 'Roles in the tenant for people who are provisioned',
});

const OfTenant = described(Nullable(Uuid), 'The tenant that it is of; null for the platform');
const MakesAccounts = Type.Boolean({
  description:
    'Makes an account, with membership in the tenant, at the first sign-in with an address that the provider has verified; no one who was removed is made a member again',
});
const Enabled = Type.Boolean({ description: 'People may sign in through it' });

const Provider = TitledObject('IdentityProvider', 'An OpenID Connect provider', {
  id: ProviderId,
  name: Name,
  issuer: Issuer,
  client_id: ClientId(),
  client_secret: Type.String({ description: 'Always the mask', examples: ['********'] }),
  tenant_id: OfTenant,
  domains: Domains,
  jit_enabled: MakesAccounts,
  default_roles: Roles,
  redirect_uris: RedirectUris,
  enabled: Enabled,
  created_at: CreatedAt,
  updated_at: UpdatedAt,
});
const ProviderBody = TitledObject(
  'IdentityProviderBody',
  'An OpenID Connect provider, as written',
  {
    name: Name,
    issuer: Issuer,
    client_id: ClientId({ minLength: 1, maxLength: 200 }),
    client_secret: Type.String({
      minLength: 1,
      maxLength: 500,
      description:
        'Its secret for Strata; kept where the mask is written back and the issuer stays',
      examples: ['given-by-the-provider'],
    }),
    tenant_id: Type.Optional(OfTenant),
    domains: Type.Optional(Domains),
    jit_enabled: Type.Optional(MakesAccounts),
    default_roles: Type.Optional(Roles),
    redirect_uris: RedirectUris,
    enabled: Type.Optional(Enabled),
  },
);

const ProviderName = TitledObject('IdentityProviderName', 'What everybody may know of a provider', {
  id: ProviderId,
  name: Name,
});

const Challenge = Type.String({
  pattern: '^[A-Za-z0-9_-]{43}$',
  description: 'base64url(SHA-256(client_verifier)), RFC 7636',
  examples: ['E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'],
});
const Started = TitledObject('SsoStarted', 'A sign-in that has begun', {
  authorization_url: Type.String({ description: 'URL that the browser opens next' }),
  state: Type.String({ description: 'State, which the provider returns with the code' }),
  expires_in: Type.Integer({ description: 'Seconds until the sign-in must be completed' }),
});

const open: Access = { level: 'public' };
const admins: Access = { level: 'platform_admin' };
const providers = '/auth/sso/providers';
const provider = '/auth/sso/providers/{id}';

export const ssoContracts = {
  'auth.login.sso.start': action({
    summary: 'Start a sign-in through an identity provider',
    rest: 'POST /auth/login/sso/start',
    access: open,
    leadsTo: 'own_sign_in',
    networkLimited: 'calls',
    body: StrictObject({
      provider_id: Type.Optional(
        described(Uuid, 'Which provider; without it the one of the domain of `email`'),
      ),
      email: Type.Optional(
        described(
          Email,
          "The person's address, whose domain names the provider",
          'ada@acme.example',
        ),
      ),
      redirect_uri: RedirectUri,
      client_challenge: Challenge,
      max_age: Optional.Integer({
        minimum: 0,
        maximum: 86_400 * 30,
        description:
          'Maximum age of the sign-in at the provider, in seconds, after which it asks for a new one; 0 always asks, as after `auth_reauth_required`',
      }),
    }),
    result: Started,
  }),
  'auth.login.sso': action({
    summary: 'Complete a sign-in through an identity provider',
    rest: 'POST /auth/login/sso',
    access: open,
    leadsTo: 'own_sign_in',
    body: TitledObject('ProviderSignIn', 'Signing in through a provider', {
      code: Type.String({ minLength: 1, maxLength: 4096, description: 'From the provider' }),
      state: Type.String({
        minLength: 1,
        maxLength: 500,
        description: 'From the provider, as Strata gave it out',
      }),
      client_verifier: Type.String({
        pattern: '^[A-Za-z0-9._~-]{43,128}$',
        description: 'What client_challenge was made of, RFC 7636',
        examples: ['dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'],
      }),
      iss: Optional.String({
        maxLength: 500,
        description: 'As the provider sent it (RFC 9207); required where it says that it sends it',
      }),
    }),
    result: TokenResponse,
    response: 'token',
    failures: { database: 'auth_sso_db_error', unexpected: 'auth_sso_internal_error' },
  }),
  'auth.sso.link': action({
    summary:
      'Start linking an identity at a provider to this account; POST /auth/login/sso completes it',
    rest: 'POST /auth/sso/link',
    access: { level: 'authenticated' },
    leadsTo: 'sign_in',
    keyScope: null,
    body: StrictObject({
      provider_id: ProviderId,
      redirect_uri: RedirectUri,
      client_challenge: Challenge,
    }),
    result: Started,
  }),
  'auth.sso.providers.list': action({
    summary: 'List identity providers; with an e-mail address, those of its domain',
    rest: `GET ${providers}`,
    access: { level: 'platform_admin', publicWith: 'email' },
    keyScope: 'platform:read',
    query: {
      ...page,
      email: Type.Optional(described(Email, 'Only providers of its domain', 'ada@acme.example')),
    },
    result: Type.Union([Page(Provider), Page(ProviderName)]),
  }),
  'auth.sso.providers.domains': internalRead({
    summary: "Domains that a tenant's enabled providers have verified",
    path: { tenant_id: Uuid },
    result: Type.Array(Type.String()),
  }),
  'auth.sso.providers.get': action({
    summary: 'Read an identity provider',
    rest: `GET ${provider}`,
    access: admins,
    keyScope: 'platform:read',
    path: { id: ProviderId },
    result: Provider,
  }),
  'auth.sso.providers.create': action({
    summary: 'Add an identity provider',
    rest: `POST ${providers}`,
    access: admins,
    leadsTo: 'sign_in',
    keyScope: 'identity:manage',
    body: ProviderBody,
    result: Provider,
    response: 'created',
  }),
  'auth.sso.providers.put': action({
    summary: 'Replace an identity provider',
    rest: `PUT ${provider}`,
    access: admins,
    leadsTo: 'sign_in',
    keyScope: 'identity:manage',
    path: { id: ProviderId },
    body: ProviderBody,
    result: Provider,
  }),
  'auth.sso.providers.delete': action({
    summary: 'Remove an identity provider',
    rest: `DELETE ${provider}`,
    access: admins,
    leadsTo: 'sign_in',
    keyScope: 'identity:manage',
    path: { id: ProviderId },
  }),
} as const;
