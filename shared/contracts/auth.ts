/** Accounts, signing in with a password, sessions. */
import { Type } from 'typebox';
import { action, Page, page, tenantRoles, type Access } from './contract.ts';
import { Email, Nullable, strict, Timestamp, Uuid } from './fields.ts';
import { authScope } from './revision-scopes.ts';
import { SignInMethod, SignInPolicy } from './sign-in-policy.ts';

/** What somebody says their address is. Its form is not judged: an address that is none belongs to nobody, like any unknown one. */
export const claimedAddress = { minLength: 1, maxLength: 254 } as const;
export const Password = Type.String({ minLength: 1, maxLength: 1024 });
const Roles = Type.Array(Type.Enum(tenantRoles));

export const User = Type.Object(
  {
    id: Uuid,
    email: Email,
    display_name: Nullable(Type.String()),
    platform_roles: Type.Array(Type.String()),
  },
  strict,
);
export const TenantRef = Type.Object({ id: Uuid, name: Type.String(), roles: Roles }, strict);
const MembershipRef = Type.Object({ tenant_id: Uuid, name: Type.String(), roles: Roles }, strict);
const identity = {
  user: User,
  tenant: Nullable(TenantRef),
  memberships: Type.Array(MembershipRef),
};

export const TokenResponse = Type.Object(
  {
    access_token: Type.String(),
    token_type: Type.Literal('Bearer'),
    expires_in: Type.Integer(),
    refresh_token: Type.String(),
    refresh_expires_in: Type.Integer(),
    session_id: Uuid,
    ...identity,
  },
  strict,
);

/** What a request needs of a session, whatever signed it in. Cached under `session_{sid}`. */
export const SessionState = Type.Object(
  {
    session_id: Uuid,
    user_id: Uuid,
    tenant_id: Nullable(Uuid),
    platform_roles: Type.Array(Type.String()),
    status: Type.Enum(['active', 'revoked']),
    authenticated_at: Timestamp,
    method: SignInMethod,
    /** The platform's, which binds its administrators. */
    sign_in_policy: SignInPolicy,
  },
  strict,
);

export const Session = Type.Object(
  {
    id: Uuid,
    tenant_id: Nullable(Uuid),
    created_at: Timestamp,
    last_used_at: Timestamp,
    expires_at: Timestamp,
    ip: Nullable(Type.String()),
    user_agent: Nullable(Type.String()),
    current: Type.Boolean({ description: 'The session of this request' }),
  },
  strict,
);
const UserStatus = Type.Enum(['active', 'disabled']);
export const ManagedUser = Type.Object(
  {
    ...User.properties,
    email_verified: Type.Boolean(),
    status: UserStatus,
    created_at: Timestamp,
  },
  strict,
);

const open: Access = { level: 'public' };
const signedIn: Access = { level: 'authenticated' };
/** What nobody is kept from by a tenant that was disabled, or by a policy on how to sign in. */
const anywhere: Access = { level: 'authenticated', inDisabledTenant: true, withAnySignIn: true };

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;
/** Somebody who found an open session may end that one, and no other. */
const recentlyForAll: Access = {
  ...anywhere,
  recent: {
    to: 'end all sessions',
    includes: ({ body }) => isObject(body) && 'all' in body && body.all === true,
  },
};
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
export const authContracts = {
  'auth.login': action({
    summary: 'Sign in with e-mail and password',
    rest: 'POST /auth/login',
    access: open,
    body: Type.Object(
      {
        email: Type.String(claimedAddress),
        password: Password,
        tenant_id: Type.Optional(Uuid),
      },
      strict,
    ),
    result: TokenResponse,
    response: 'token',
    failures: { database: 'auth_login_db_error', unexpected: 'auth_login_internal_error' },
  }),
  'auth.refresh': action({
    summary: 'Exchange a refresh token for a new pair',
    rest: 'POST /auth/refresh',
    access: open,
    body: Type.Object({ refresh_token: Type.String({ minLength: 1, maxLength: 500 }) }, strict),
    result: TokenResponse,
    response: 'token',
    failures: { database: 'auth_refresh_db_error', unexpected: 'auth_refresh_internal_error' },
  }),
  'auth.logout': action({
    summary: 'End this session, or all of them',
    rest: 'POST /auth/logout',
    access: recentlyForAll,
    keyScope: 'auth:self',
    body: Type.Object({ all: Type.Optional(Type.Boolean()) }, strict),
    result: Type.Null(),
    response: 'nothing',
  }),
  'auth.me': action({
    summary: 'Who am I',
    rest: 'GET /auth/me',
    access: anywhere,
    keyScope: 'auth:self',
    result: Type.Object(
      {
        ...identity,
        user: Nullable(User),
        service_account: Nullable(
          Type.Object(
            { id: Uuid, name: Type.String() },
            { ...strict, description: "Whose API key this is, where it is no person's" },
          ),
        ),
        session_id: Nullable(Uuid),
      },
      strict,
    ),
  }),
  'auth.password.change': action({
    summary: 'Change my password; ends my other sessions',
    rest: 'POST /auth/password/change',
    access: signedIn,
    keyScope: null,
    body: Type.Object(
      {
        current_password: Password,
        new_password: Password,
        end_api_keys: Type.Optional(
          Type.Boolean({ description: 'End my API keys too, in all tenants' }),
        ),
      },
      strict,
    ),
    result: Type.Null(),
    response: 'nothing',
  }),
  'auth.password.forgot': action({
    summary:
      'Have a link to reset the password mailed; answers alike whether or not there is such an account',
    rest: 'POST /auth/password/forgot',
    access: open,
    networkLimited: 'calls',
    body: Type.Object({ email: Type.String(claimedAddress) }, strict),
    result: Type.Object(
      { expires_in: Type.Integer({ description: 'Seconds that the link is good for' }) },
      strict,
    ),
    response: 'accepted',
  }),
  'auth.password.reset': action({
    summary: 'Set a new password with the token of a reset link; ends all sessions and API keys',
    rest: 'POST /auth/password/reset',
    access: open,
    networkLimited: 'calls',
    body: Type.Object(
      { token: Type.String({ minLength: 1, maxLength: 500 }), new_password: Password },
      strict,
    ),
    result: Type.Null(),
    response: 'nothing',
  }),
  'auth.sessions.list': action({
    summary: 'My sessions, newest first',
    rest: 'GET /auth/sessions',
    access: anywhere,
    keyScope: null,
    query: page,
    result: Page(Session),
    response: 'list',
  }),
  'auth.sessions.end': action({
    summary: 'End one of my sessions',
    rest: 'DELETE /auth/sessions/{session_id}',
    access: recentlyForOthers,
    keyScope: null,
    path: { session_id: Uuid },
    result: Type.Null(),
    response: 'nothing',
  }),
  'auth.switch-tenant': action({
    summary: 'Go on in another of my tenants, in the same session',
    rest: 'POST /auth/switch-tenant',
    access: anywhere,
    keyScope: null,
    body: Type.Object({ tenant_id: Uuid }, strict),
    result: TokenResponse,
    response: 'token',
  }),
  'auth.sessions.resolve': action({
    summary: 'A session as the gateway needs it',
    access: { level: 'internal' },
    path: { session_id: Uuid },
    result: SessionState,
    cache: { cache: 'identity', key: sessionCacheKey, revisionScopes: () => [authScope] },
  }),
  'auth.users.list': action({
    summary: 'List accounts',
    rest: 'GET /auth/users',
    access: { level: 'platform_admin' },
    keyScope: 'platform:read',
    query: {
      email: Type.Optional(Type.String({ maxLength: 254, description: 'Only this address' })),
      ...page,
    },
    result: Page(ManagedUser),
    response: 'list',
  }),
  'auth.users.patch': action({
    summary: 'Disable or enable an account',
    rest: 'PATCH /auth/users/{user_id}',
    access: { level: 'platform_admin' },
    keyScope: 'platform:write',
    path: { user_id: Uuid },
    body: Type.Object({ status: UserStatus }, strict),
    result: ManagedUser,
  }),
  'auth.users.ensure': action({
    summary: 'The account of an e-mail address, made where there is none',
    access: { level: 'internal' },
    body: Type.Object(
      {
        email: Email,
        tenant_id: Type.Optional(Uuid),
        tenant_name: Type.String(),
        password: Type.Optional(
          Type.String({
            maxLength: 1024,
            description: "The platform administrator's word for a new account, which proves it",
          }),
        ),
      },
      strict,
    ),
    result: Type.Object(
      {
        id: Uuid,
        email: Email,
        admitted: Type.Boolean({
          description: 'The person need not accept: somebody who may has vouched for the address',
        }),
      },
      strict,
    ),
  }),
  'auth.users.get': action({
    summary: 'Accounts by id',
    access: { level: 'internal' },
    changesNothing: true,
    path: { user_ids: Type.Array(Uuid) },
    result: Type.Array(Type.Object({ ...User.properties, status: UserStatus }, strict)),
  }),
  'auth.users.find': action({
    summary: 'The account of an e-mail address, if there is one',
    access: { level: 'internal' },
    changesNothing: true,
    path: { email: Type.String({ maxLength: 254 }) },
    result: Nullable(
      Type.Object({ id: Uuid, email_verified: Type.Boolean(), status: UserStatus }, strict),
    ),
  }),
} as const;
