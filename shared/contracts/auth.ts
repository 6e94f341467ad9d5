/** Accounts, signing in with a password, sessions. */
import { Type } from 'typebox';
import { AuditFacts } from './audit.ts';
import { action, internal, internalRead, type Access } from './contract.ts';
import { TenantRole } from './roles.ts';
import { listing } from './envelopes.ts';
import {
  CreatedAt,
  described,
  DescribedObject,
  Email,
  MailedToken,
  Nullable,
  Optional,
  StrictObject,
  Timestamp,
  TitledObject,
  UserId,
  Uuid,
} from './fields.ts';
import { authScope } from './revision-scopes.ts';
import { SignInMethod, SignInPolicy } from './sign-in-policy.ts';

/**
 * What somebody says their address is. Its form is not judged: an address that is none belongs to
 * nobody, like any unknown one.
 */
export const claimedAddress = {
  minLength: 1,
  maxLength: 254,
  description: 'Mail address of the account',
  examples: ['ada@example.com'],
} as const;
export const Password = Type.String({
  minLength: 1,
  maxLength: 1024,
  description: 'Password',
  examples: ['correct horse battery staple'],
});
const Roles = Type.Array(TenantRole, { description: 'Roles in the tenant' });

export const User = TitledObject('User', 'An account', {
  id: described(Uuid, "The account's id"),
  email: Email,
  display_name: Nullable(
    Type.String({
      description: 'What the person is called; null if no one said',
      examples: ['Ada Lovelace'],
    }),
  ),
  platform_roles: Type.Array(Type.String(), {
    description: '`platform_admin` for those who administer the platform',
  }),
});
const TenantName = Type.String({ description: "The tenant's name", examples: ['Acme'] });
export const TenantRef = TitledObject('TenantRef', 'The tenant that a session acts in', {
  id: described(Uuid, "The tenant's id"),
  name: TenantName,
  roles: Roles,
});
const MembershipRef = TitledObject('MembershipRef', 'A tenant that an account belongs to', {
  tenant_id: described(Uuid, "The tenant's id"),
  name: TenantName,
  roles: Roles,
});
const identity = {
  user: User,
  tenant: described(Nullable(TenantRef), 'The tenant that it acts in; null outside of all'),
  memberships: Type.Array(MembershipRef, { description: 'Tenants that it could switch to' }),
  visit: Type.Optional(
    TitledObject(
      'OpenVisit',
      'Only while the session looks into the tenant for the platform, read-only',
      {
        id: described(Uuid, "The visit's id"),
        until: described(Timestamp, 'When it ends by itself'),
      },
    ),
  ),
};
const SessionId = described(Uuid, "The session's id");

export const TokenResponse = TitledObject(
  'TokenResponse',
  'A session that has begun or continues',
  {
    access_token: Type.String({ description: 'For Authorization: Bearer' }),
    token_type: Type.Literal('Bearer', { description: 'How it is sent' }),
    expires_in: Type.Integer({
      description: 'Seconds until the access token expires',
      examples: [900],
    }),
    refresh_token: Type.String({ description: 'For POST /auth/refresh, once' }),
    refresh_expires_in: Type.Integer({
      description: 'Seconds until the refresh token expires, unless it is used',
      examples: [2_592_000],
    }),
    session_id: SessionId,
    ...identity,
  },
);

/** What a request needs of a session, whatever signed it in. Cached under `session_{sid}`. */
export const SessionState = StrictObject({
  session_id: Uuid,
  user_id: Uuid,
  tenant_id: Nullable(Uuid),
  platform_roles: Type.Array(Type.String()),
  status: Type.Enum(['active', 'revoked']),
  authenticated_at: Timestamp,
  method: SignInMethod,
  /** The tenant that it is good for and no other. */
  confined_to: Type.Optional(Uuid),
  /** The platform's, which binds its administrators. */
  sign_in_policy: SignInPolicy,
});

export const Session = TitledObject('Session', 'A session of an account', {
  id: SessionId,
  tenant_id: described(Nullable(Uuid), 'The tenant that it acts in; null outside of all'),
  method: described(SignInMethod, 'How its person signed in'),
  confined_to: described(
    Nullable(Uuid),
    "The tenant that it is good for and no other, since that tenant's own provider signed it in; null for all",
  ),
  created_at: CreatedAt,
  last_used_at: described(Timestamp, 'When it was last refreshed'),
  expires_at: described(Timestamp, 'When it expires, unless it is refreshed'),
  ip: Nullable(
    Type.String({ description: 'Address that it began from', examples: ['203.0.113.7'] }),
  ),
  user_agent: Nullable(Type.String({ description: 'Browser or program that it began in' })),
  current: Type.Boolean({ description: 'The session of this request' }),
});
const UserStatus = Type.Enum(['active', 'disabled'], {
  description: 'A disabled account can do nothing',
});
const ManagedUser = TitledObject(
  'ManagedUser',
  "An account, as the platform's administrators see it",
  {
    ...User.properties,
    email_verified: Type.Boolean({
      description: 'The person has proved that the address is theirs',
    }),
    status: UserStatus,
    created_at: CreatedAt,
  },
);

/** Why somebody cannot sign in, or cannot act where they do. */
const keptOutBy = [
  'account_disabled',
  'address_unproved',
  'no_way_in',
  'no_tenant',
  'policy',
] as const;

const AccountDetail = TitledObject(
  'AccountDetail',
  'An account, its credentials, and what prevents its owner from signing in',
  {
    ...ManagedUser.properties,
    kept_out_by: Type.Array(Type.Enum(keptOutBy), {
      description:
        'What keeps the person out now, as far as the account says; empty where nothing does. `policy`: every tenant wants a passkey or a provider, and there is neither',
    }),
    signs_in_with: DescribedObject('Credentials of the account', {
      password: Type.Boolean({ description: 'Whether there is a password' }),
      passkeys: Type.Integer({ description: 'How many passkeys' }),
      providers: Type.Array(Type.String({ description: 'An issuer' }), {
        description: 'Providers that know the person',
      }),
    }),
    memberships: Type.Array(
      StrictObject({
        tenant_id: described(Uuid, 'The tenant'),
        name: Type.String({ description: 'What it is called' }),
        status: Type.Enum(['active', 'disabled'], { description: "The tenant's status" }),
        roles: Type.Array(Type.String({ description: 'A role' }), {
          description: 'Roles of the person in it',
        }),
      }),
      { description: 'Tenants that the person is an active member of' },
    ),
    sessions: Type.Array(Session, { description: 'The open ones, newest first, at most 50' }),
  },
);

const open: Access = { level: 'public' };
const signedIn: Access = { level: 'authenticated' };
/** What nobody is kept from by a tenant that was disabled, or by a policy on how to sign in. */
const anywhere = {
  level: 'authenticated',
  inDisabledTenant: true,
  withAnySignIn: true,
} as const satisfies Access;

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;
/** Somebody who found an open session may end that one, and no other. */
const recentlyForAll = {
  ...anywhere,
  recent: {
    to: 'end all sessions',
    includes: ({ body }) => isObject(body) && 'all' in body && body.all === true,
  },
} as const satisfies Access;
const recentlyForOthers: Access = {
  ...anywhere,
  recent: {
    to: 'end another session than its own',
    includes: ({ session_id: ended }, { session_id: own }) => own === undefined || ended !== own,
  },
};
/** Where every node caches what it knows of a session. */
export const sessionCacheKey = ({ session_id }: { session_id: string }): string =>
  `session_${session_id}`;
/** Of the account itself, of which no node keeps anything: a change with it disabled or erased it. */
export const accountKey = ({ user_id }: { readonly user_id: string }): string =>
  `account_${user_id}`;
export const authContracts = {
  'auth.login': action({
    summary: 'Sign in with e-mail and password',
    rest: 'POST /auth/login',
    access: open,
    leadsTo: 'own_sign_in',
    body: TitledObject('PasswordSignIn', 'Signing in with a password', {
      email: Type.String(claimedAddress),
      password: Password,
      tenant_id: Type.Optional(
        described(Uuid, 'The tenant to act in; the one last used by default'),
      ),
    }),
    result: TokenResponse,
    response: 'token',
    failures: { database: 'auth_login_db_error', unexpected: 'auth_login_internal_error' },
  }),
  'auth.refresh': action({
    summary: 'Exchange a refresh token for a new pair',
    rest: 'POST /auth/refresh',
    access: open,
    leadsTo: 'own_sign_in',
    body: StrictObject({
      refresh_token: Type.String({
        minLength: 1,
        maxLength: 500,
        description: 'The refresh token of the previous answer',
        examples: ['bmV2ZXItZ2l2ZW4tb3V0'],
      }),
    }),
    result: TokenResponse,
    response: 'token',
    failures: { database: 'auth_refresh_db_error', unexpected: 'auth_refresh_internal_error' },
  }),
  'auth.logout': action({
    summary: 'End this session, or all of them',
    rest: 'POST /auth/logout',
    access: { ...recentlyForAll, whileVisiting: true },
    leadsTo: 'removal',
    keyScope: 'auth:self',
    body: StrictObject({
      all: Optional.Boolean({
        description: 'End all sessions of the account instead of only this one',
      }),
    }),
  }),
  'auth.me': action({
    summary: 'Who am I',
    rest: 'GET /auth/me',
    access: anywhere,
    keyScope: 'auth:self',
    narrow: 'own',
    result: TitledObject('Me', 'Who calls, and what they belong to', {
      ...identity,
      user: described(Nullable(User), "Who calls; null for a service account's API key"),
      service_account: Nullable(
        DescribedObject("Whose API key this is, where it is no person's", {
          id: described(Uuid, "The service account's id"),
          name: Type.String({ description: 'Its name' }),
        }),
      ),
      session_id: described(Nullable(Uuid), 'The session; null with an API key'),
    }),
  }),
  'auth.password.change': action({
    summary: 'Change my password; ends my other sessions',
    rest: 'POST /auth/password/change',
    access: signedIn,
    leadsTo: 'own_sign_in',
    keyScope: null,
    body: StrictObject({
      current_password: described(Password, 'Current password'),
      new_password: described(
        Password,
        'New password: 12 to 256 characters, and not a common one',
        'another horse battery staple',
      ),
      end_api_keys: Optional.Boolean({ description: 'End my API keys too, in all tenants' }),
    }),
  }),
  'auth.password.forgot': action({
    summary:
      'Request a password reset by mail; the answer does not tell whether the account exists',
    rest: 'POST /auth/password/forgot',
    access: open,
    leadsTo: 'own_sign_in',
    networkLimited: 'calls',
    body: StrictObject({ email: Type.String(claimedAddress) }),
    result: StrictObject({
      expires_in: Type.Integer({ description: 'Seconds until the link expires' }),
    }),
    response: 'accepted',
  }),
  'auth.password.reset': action({
    summary: 'Set a new password with the token of a reset link; ends all sessions and API keys',
    rest: 'POST /auth/password/reset',
    access: open,
    leadsTo: 'own_sign_in',
    networkLimited: 'calls',
    body: StrictObject({
      token: MailedToken(500),
      new_password: described(Password, 'New password: 12 to 256 characters, and not a common one'),
    }),
  }),
  'auth.sessions.list': listing({
    summary: 'My sessions, newest first',
    rest: 'GET /auth/sessions',
    access: anywhere,
    keyScope: null,
    items: Session,
  }),
  'auth.sessions.end': action({
    summary: 'End one of my sessions',
    rest: 'DELETE /auth/sessions/{session_id}',
    access: recentlyForOthers,
    leadsTo: 'removal',
    keyScope: null,
    path: { session_id: SessionId },
  }),
  'auth.switch-tenant': action({
    summary: 'Switch the session to another of my tenants',
    rest: 'POST /auth/switch-tenant',
    access: { ...anywhere, whileVisiting: true },
    leadsTo: 'own_sign_in',
    keyScope: null,
    body: StrictObject({ tenant_id: described(Uuid, 'The tenant to switch to') }),
    result: TokenResponse,
    response: 'token',
  }),
  'auth.sessions.end-in': internal({
    summary: 'End the sessions of somebody in a tenant that they left',
    path: { tenant_id: Uuid, user_id: UserId },
  }),
  'auth.sessions.resolve': internal({
    summary: 'A session as the gateway needs it',
    path: { session_id: Uuid },
    result: SessionState,
    cache: { cache: 'identity', key: sessionCacheKey, revisionScopes: () => [authScope] },
  }),
  'auth.users.list': listing({
    summary: 'List accounts',
    rest: 'GET /auth/users',
    access: { level: 'platform_admin' },
    keyScope: 'platform:read',
    query: {
      email: Optional.String({ maxLength: 254, description: 'Only this address' }),
      q: Optional.String({
        maxLength: 200,
        description: 'Only those with this in their address or name, in upper or lower case',
      }),
    },
    items: ManagedUser,
  }),
  'auth.users.read': action({
    summary:
      'Read an account: its credentials, its sessions, and what prevents its owner from signing in',
    rest: 'GET /auth/users/{user_id}',
    access: { level: 'platform_admin' },
    keyScope: 'platform:read',
    path: { user_id: UserId },
    result: AccountDetail,
  }),
  'auth.users.patch': action({
    summary: 'Disable or enable an account',
    rest: 'PATCH /auth/users/{user_id}',
    access: { level: 'platform_admin' },
    leadsTo: 'sign_in',
    keyScope: 'identity:manage',
    path: { user_id: UserId },
    body: TitledObject('AccountPatch', 'Changes to an account', { status: UserStatus }),
    result: ManagedUser,
  }),
  'auth.users.delete': action({
    summary: 'Erase an account with its credentials and memberships',
    rest: 'DELETE /auth/users/{user_id}',
    access: { level: 'platform_admin' },
    leadsTo: 'sign_in',
    keyScope: 'identity:manage',
    path: { user_id: UserId },
  }),
  'auth.users.recover': action({
    summary:
      'Revoke all credentials of an account, for an owner who lost their passkey or provider; a mailed link lets them start again',
    rest: 'POST /auth/users/{user_id}/recover',
    access: { level: 'platform_admin' },
    leadsTo: 'sign_in',
    keyScope: null,
    path: { user_id: UserId },
  }),
  'auth.users.ensure': internal({
    summary: 'The account of an e-mail address, made where there is none',
    body: StrictObject({
      email: Email,
      tenant_id: Type.Optional(Uuid),
      tenant_name: Type.String(),
      password: Optional.String({
        maxLength: 1024,
        description: "The platform administrator's word for a new account, which proves it",
      }),
    }),
    result: StrictObject({
      id: Uuid,
      email: Email,
      admitted: Type.Boolean({
        description: 'The person need not accept: somebody who may has vouched for the address',
      }),
    }),
  }),
  'auth.users.get': internalRead({
    summary: 'Accounts by id',
    path: { user_ids: Type.Array(Uuid) },
    result: Type.Array(StrictObject({ ...User.properties, status: UserStatus })),
  }),
  'auth.users.at': internalRead({
    summary: 'Accounts by id, with what each was at a moment',
    path: { user_ids: Type.Array(Uuid), at: Timestamp },
    result: Type.Array(
      StrictObject({
        id: Uuid,
        email: Type.String(),
        display_name: Nullable(Type.String()),
        status: Nullable(Type.Enum(['active', 'disabled'], { description: 'Null: not known' })),
      }),
    ),
  }),
  'auth.power-notices.send': internal({
    summary: 'Tell those concerned by mail what was changed in who may do what',
    // Answered once the mails are sent, after which nobody sends them again: those that are begun
    // within five minutes (power-notices.ts), each of which has three attempts of a minute.
    minTimeoutMs: 1_200_000,
    changesNothing: true,
    body: Type.Array(AuditFacts),
  }),
  'auth.change-set-notices.send': internal({
    summary: 'Tell those who wait for a change set by mail what has become of it',
    // As above.
    minTimeoutMs: 1_200_000,
    changesNothing: true,
    body: Type.Array(AuditFacts),
  }),
  'auth.users.find': internalRead({
    summary: 'The account of an e-mail address, if there is one',
    path: { email: Type.String({ maxLength: 254 }) },
    result: Nullable(
      StrictObject({ id: Uuid, email_verified: Type.Boolean(), status: UserStatus }),
    ),
  }),
} as const;
