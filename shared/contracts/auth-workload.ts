/**
 * Workload identity: a pipeline or cluster exchanges the token that its platform gives it for a
 * short one of a service account (RFC 8693). The platform lists the issuers; a tenant's rules say
 * whose tokens stand for which account.
 */
import { Type, type Static } from 'typebox';
import { action, internal } from './contract.ts';
import { KeyScope, keyScopes, tenantRoles } from './roles.ts';
import {
  Author,
  CreatedAt,
  described,
  Line,
  Nullable,
  Optional,
  SomeOf,
  StrictObject,
  TitledObject,
  Uuid,
} from './fields.ts';
import { NarrowedTo } from './narrow-keys.ts';
import { authScope } from './revision-scopes.ts';
import { tenantAdmins, tenantPath } from './tenant-document.ts';

const maxTrustRules = 20;
const maxIssuers = 100;
const maxClaims = 20;
export const longestTokenSeconds = 900;
/** Characters; issuers give a few thousand. */
export const longestSubjectToken = 16_384;
export const tokenExchange = 'urn:ietf:params:oauth:grant-type:token-exchange';
export const jwtTokenType = 'urn:ietf:params:oauth:token-type:jwt';
export const accessTokenType = 'urn:ietf:params:oauth:token-type:access_token';

const Issuer = Type.String({
  minLength: 1,
  maxLength: 500,
  format: 'uri',
  description: 'As its tokens name it in `iss`, to the character',
  examples: ['https://token.actions.githubusercontent.com'],
});
const Pattern = (description: string, example: string) =>
  described(
    Type.String({ minLength: 1, maxLength: 500, pattern: '^[^\\x00-\\x1f\\x7f]*$' }),
    description,
    example,
  );

const rule = {
  issuer: Issuer,
  audience: Type.Optional(
    described(
      Line(500, ''),
      "What `aud` of a token is: BASE_URL or, by default, the account's own address below it",
    ),
  ),
  subject: Type.Optional(
    Pattern(
      'What `sub` is; `*` at the end stands for any rest',
      'repo:acme/shop:ref:refs/heads/main',
    ),
  ),
  claims: Type.Optional(
    Type.Record(
      Type.String(),
      Pattern('What the claim is; `*` at the end stands for any rest', '12345678'),
      {
        maxProperties: maxClaims,
        description: 'What other claims are, all of them',
        examples: [{ repository_owner_id: '12345678' }],
      },
    ),
  ),
  roles: described(SomeOf(tenantRoles, { minItems: 1 }), 'Roles, among those of the account', [
    'viewer',
  ]),
  scopes: Optional.Array(KeyScope, {
    minItems: 1,
    maxItems: keyScopes.length,
    uniqueItems: true,
    description: 'What its tokens may do; config:read by default',
  }),
  narrowed_to: Type.Optional(described(NarrowedTo, 'What its tokens are for; all by default')),
  max_ttl: Optional.Integer({
    minimum: 60,
    maximum: longestTokenSeconds,
    default: longestTokenSeconds,
    description: 'Lifetime of its tokens, in seconds',
  }),
};
const NewRule = TitledObject('TrustRuleBody', 'Trust rules of the account, as written', rule);
export type NewTrustRule = Static<typeof NewRule>;
const Rule = TitledObject('TrustRule', 'Trust rules of the account', {
  id: described(Uuid, 'Of the rule as it is; a rule that changes is another one'),
  ...rule,
  audience: described(Line(500, ''), 'What `aud` of a token is'),
  scopes: Type.Array(KeyScope, { description: 'What its tokens may do' }),
  max_ttl: Type.Integer({ description: 'Lifetime of its tokens, in seconds' }),
  made_by: Author,
  created_at: CreatedAt,
});
export type TrustRule = Static<typeof Rule>;

const DocumentRevision = Type.Integer({
  minimum: 0,
  description: 'Its revision; 0 before the first',
});
const Read = Type.Optional(
  described(DocumentRevision, 'The revision that was read: another one is 412'),
);
const Trust = TitledObject('WorkloadTrust', 'Trust rules of a service account', {
  rules: Type.Array(Rule, { description: 'Any one is enough' }),
  revision: DocumentRevision,
});

const jwks = TitledObject('PublicKeys', 'Its keys, for an issuer that Strata cannot reach', {
  keys: Type.Array(Type.Record(Type.String(), Type.Unknown(), { description: 'A public key' }), {
    minItems: 1,
    maxItems: 20,
    description: 'Public keys (RFC 7517), each with `kid` and `kty`',
  }),
});
const issuer = {
  issuer: Issuer,
  jwks: Type.Optional(Nullable(jwks)),
};
const IssuerBody = TitledObject(
  'WorkloadIssuerBody',
  'An issuer; its keys are found by OpenID Connect Discovery unless they are given',
  issuer,
);
export type NewWorkloadIssuer = Static<typeof IssuerBody>;
const WorkloadIssuer = TitledObject('WorkloadIssuer', 'An issuer whose tokens tenants may trust', {
  id: described(Uuid, 'Of the issuer with these keys'),
  ...issuer,
});
export type WorkloadIssuer = Static<typeof WorkloadIssuer>;
const Issuers = TitledObject('WorkloadIssuers', 'The issuers that the platform allows', {
  issuers: Type.Array(WorkloadIssuer, { description: 'Those that rules may name' }),
  revision: DocumentRevision,
});

/** Without the tenant, which must not be left in records of changes once it is erased. */
export const trustCacheKey = ({ account_id: id }: { readonly account_id: string }): string =>
  `workload_trust_${id}`;
export const workloadIssuersKey = 'workload_issuers';

const account = { account_id: described(Uuid, "The service account's id") };
const accountPath = { ...tenantPath, ...account };
const trust = '/tenants/{tenant_id}/service-accounts/{account_id}/trust';
const issuers = '/auth/workload-issuers';

export const workloadContracts = {
  'auth.trust.get': action({
    summary: 'Read the trust rules of a service account',
    rest: `GET ${trust}`,
    access: tenantAdmins,
    keyScope: 'members:read',
    path: accountPath,
    result: Trust,
  }),
  'auth.trust.put': action({
    summary: `Replace the trust rules of a service account, at most ${maxTrustRules}; tokens of removed or changed rules are revoked`,
    rest: `PUT ${trust}`,
    access: tenantAdmins,
    leadsTo: 'credentials',
    keyScope: null,
    path: accountPath,
    body: TitledObject('WorkloadTrustBody', 'All rules of a service account', {
      rules: Type.Array(NewRule, {
        maxItems: maxTrustRules,
        description: 'All of them: what is left out is removed',
      }),
      revision: Read,
    }),
    result: Trust,
    drops: (params) => [trustCacheKey(params)],
  }),
  'auth.trust.delete': action({
    summary: 'Remove the trust rules of a service account; issued tokens are revoked',
    rest: `DELETE ${trust}`,
    access: tenantAdmins,
    leadsTo: 'removal',
    keyScope: 'members:write',
    path: accountPath,
    drops: (params) => [trustCacheKey(params)],
  }),
  'auth.trust.resolve': internal({
    summary: 'Rules of a service account as the gateway needs them',
    path: account,
    result: Type.Array(
      StrictObject({
        id: Uuid,
        label: Type.String(),
        made_by: Type.String(),
        roles: Type.Array(Type.Enum(tenantRoles)),
        narrowed_to: Type.Optional(NarrowedTo),
      }),
    ),
    cache: { cache: 'identity', key: trustCacheKey, revisionScopes: () => [authScope] },
  }),
  'auth.workload-issuers.get': action({
    summary: 'Read the allowed issuers of workload tokens',
    rest: `GET ${issuers}`,
    access: { level: 'platform_admin' },
    keyScope: 'platform:read',
    result: Issuers,
  }),
  'auth.workload-issuers.put': action({
    summary:
      'Replace the allowed issuers of workload tokens; tokens of other issuers or keys are revoked',
    rest: `PUT ${issuers}`,
    access: { level: 'platform_admin' },
    leadsTo: 'sign_in',
    keyScope: 'identity:manage',
    body: TitledObject('WorkloadIssuersBody', 'All issuers that are allowed', {
      issuers: Type.Array(IssuerBody, {
        maxItems: maxIssuers,
        description: 'All of them: what is left out is removed',
      }),
      revision: Read,
    }),
    result: Issuers,
    drops: () => [workloadIssuersKey],
  }),
  'auth.workload-issuers.resolve': internal({
    summary: 'Ids of the issuers that are allowed, as the gateway needs them',
    result: Type.Array(Uuid),
    cache: { cache: 'identity', key: () => workloadIssuersKey, revisionScopes: () => [authScope] },
  }),
  'auth.token.exchange': action({
    summary: "Exchange a workload's token for one of a service account (RFC 8693)",
    rest: 'POST /auth/token',
    access: { level: 'public' },
    leadsTo: 'own_sign_in',
    networkLimited: 'failures',
    body: TitledObject('TokenExchange', 'A token exchange (RFC 8693, 2.1)', {
      grant_type: Type.String({
        maxLength: 200,
        description: 'The only grant there is',
        examples: [tokenExchange],
      }),
      subject_token: Type.String({
        minLength: 1,
        maxLength: longestSubjectToken,
        description: "The JWT of the workload's platform",
        examples: ['eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl'],
      }),
      subject_token_type: Type.String({
        maxLength: 200,
        description: 'What it is',
        examples: [jwtTokenType],
      }),
      audience: Optional.String({
        maxLength: 500,
        description:
          "The account's address, BASE_URL/tenants/…/service-accounts/…; by default what `aud` of the token is",
      }),
      scope: Optional.String({
        maxLength: 500,
        description: 'Scopes with spaces between them; those of the rule by default',
      }),
      requested_token_type: Optional.String({
        maxLength: 200,
        description: 'An access token, the only type there is',
      }),
    }),
    result: TitledObject('ExchangedToken', 'A token of a service account', {
      access_token: Type.String({ description: 'For Authorization: Bearer' }),
      issued_token_type: Type.Literal(accessTokenType, { description: 'What it is' }),
      token_type: Type.Literal('Bearer', { description: 'How it is sent' }),
      expires_in: Type.Integer({ description: 'Seconds until it expires' }),
      scope: Type.String({ description: 'What it may do, with spaces between scopes' }),
    }),
    response: 'oauth_token',
  }),
} as const;
