import { Type } from 'typebox';
import { action, Timestamp, Uuid, type Access } from './contract.ts';
import { roles } from './tenant-config.ts';

const strict = { additionalProperties: false } as const;
const NullableString = Type.Union([Type.String(), Type.Null()]);
const Email = Type.String({ format: 'email', maxLength: 254 });
const Password = Type.String({ minLength: 1, maxLength: 1024 });
const Roles = Type.Array(Type.Enum(roles));

export const User = Type.Object({
  id: Uuid, email: Email, display_name: NullableString, platform_roles: Type.Array(Type.String()),
}, strict);
const TenantRef = Type.Object({ id: Uuid, name: Type.String(), roles: Roles }, strict);
const MembershipRef = Type.Object({ tenant_id: Uuid, name: Type.String(), roles: Roles }, strict);
const identity = { user: User, tenant: Type.Union([TenantRef, Type.Null()]), memberships: Type.Array(MembershipRef) };

export const TokenResponse = Type.Object({
  access_token: Type.String(), token_type: Type.Literal('Bearer'), expires_in: Type.Integer(),
  refresh_token: Type.String(), refresh_expires_in: Type.Integer(), session_id: Uuid, ...identity,
}, strict);

/** What a request needs of a session, whatever signed it in. Cached under `session_{sid}`. */
export const SessionState = Type.Object({
  session_id: Uuid, user_id: Uuid, tenant_id: Type.Union([Uuid, Type.Null()]), platform_roles: Type.Array(Type.String()),
  status: Type.Enum(['active', 'revoked']), authenticated_at: Timestamp,
}, strict);

const open: Access = { level: 'public' };
const signedIn: Access = { level: 'authenticated' };
export const authScope = 'auth';
const sessionKey = ({ session_id }: { session_id: string }): string => `session_${session_id}`;
export const authContracts = {
  'auth.login': action({
    summary: 'Sign in with e-mail and password', rest: 'POST /auth/login', access: open,
    body: Type.Object({ email: Type.String({ minLength: 1, maxLength: 254 }), password: Password, tenant_id: Type.Optional(Uuid) }, strict),
    result: TokenResponse, answer: 'token',
  }),
  'auth.refresh': action({
    summary: 'Exchange a refresh token for a new pair', rest: 'POST /auth/refresh', access: open,
    body: Type.Object({ refresh_token: Type.String({ minLength: 1, maxLength: 500 }) }, strict), result: TokenResponse, answer: 'token',
  }),
  'auth.logout': action({
    summary: 'End this session, or all of them', rest: 'POST /auth/logout', access: signedIn, scope: 'auth:self',
    body: Type.Object({ all: Type.Optional(Type.Boolean()) }, strict), result: Type.Null(), answer: 'nothing',
  }),
  'auth.me': action({
    summary: 'Who am I', rest: 'GET /auth/me', access: signedIn, scope: 'auth:self',
    result: Type.Object({ ...identity, session_id: Type.Union([Uuid, Type.Null()]) }, strict),
  }),
  'auth.sessions.resolve': action({
    summary: 'A session as the gateway needs it', access: { level: 'internal' }, path: { session_id: Uuid }, result: SessionState,
    cache: { cache: 'identity', key: sessionKey, scopes: () => [authScope] },
  }),
  'auth.users.ensure': action({
    summary: 'The account of an e-mail address, made where there is none', access: { level: 'internal' },
    body: Type.Object({ email: Email, password: Type.Optional(Password), display_name: Type.Optional(Type.String()) }, strict), result: User,
  }),
  'auth.users.get': action({
    summary: 'Accounts by id', access: { level: 'internal' }, path: { user_ids: Type.Array(Uuid) }, result: Type.Array(User),
  }),
} as const;
