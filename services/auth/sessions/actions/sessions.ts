/**
 * Sessions: who one is, listing and ending one's own, continuing in another tenant, and what the
 * gateway asks of them.
 */
import { IsNull, type EntityManager } from 'typeorm';
import type { Caller } from '../../../../shared/access.ts';
import type { Call, Handlers, Request } from '../../../../shared/contract-runtime/request.ts';
import { commitChange, readSnapshot, type EventDraft } from '../../../../shared/commits/commit.ts';
import { dropAgain } from '../../../../shared/commits/removals.ts';
import { holderOf, shareOf, takeShares } from '../../../../shared/commits/shares.ts';
import { sessionCacheKey } from '../../../../shared/contracts/auth.ts';
import type { ResultOf } from '../../../../shared/contracts/index.ts';
import { authScope } from '../../../../shared/contracts/revision-scopes.ts';
import type { SignInPolicy } from '../../../../shared/contracts/sign-in-policy.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../../shared/documents/paging.ts';
import { lockRow } from '../../../../shared/database/locked-row.ts';
import { StrataError } from '../../../../shared/errors.ts';
import type { Settings } from '../../../../shared/settings/settings.ts';
import type { AuthParts } from '../../parts.ts';
import { platformRolesIn } from '../../accounts/rules/accounts.ts';
import { requireMembership } from '../../accounts/rules/memberships.ts';
import { visitOfCaller } from '../visits.ts';
import { ownSessionOf } from '../rules/own-session.ts';
import { sessionView } from '../rules/session-view.ts';
import { refreshKeysOf } from '../rules/refresh-tokens.ts';
import { SessionEntity, UserEntity, type SessionRow } from '../../schema.ts';
import { identityOf } from '../sign-in.ts';
import { entryEvent, identityEvent } from '../../stores/audit-events.ts';
import { databaseTime, hasPassed } from '../../stores/clock.ts';
import {
  endSessions,
  endSessionsIn,
  putTokenBeside,
  requireGoodFor,
  sessionsToEnd,
} from '../stores/sessions.ts';
import { findUser } from '../../accounts/stores/users.ts';

type SessionState = ResultOf<'auth.sessions.resolve'>;

/** The platform's policy binds its administrators; everyone else is their tenant's to bind. */
function platformPolicyFor(platformRoles: readonly string[], settings: Settings): SignInPolicy {
  const isBound = platformRoles.length > 0 && settings.platform_sign_in_policy === 'passkey_or_sso';
  return isBound ? 'passkey_or_sso' : 'any';
}

/** Who a service account is: in its tenant and in no other. */
async function serviceAccountOf(
  { id, tenant_id: tenantId, roles }: Caller,
  call: Call,
): Promise<ResultOf<'auth.me'>> {
  if (tenantId === null) throw new StrataError('not_found', 'There is no account for this caller.');
  const address = { tenant_id: tenantId, account_id: id };
  const account = await call('tenant-config.service-accounts.resolve', address);
  const { tenant_name: tenantName, name } = account;
  return {
    user: null,
    service_account: { id, name },
    tenant: { id: tenantId, name: tenantName, roles: [...roles] },
    memberships: [{ tenant_id: tenantId, name: tenantName, roles: [...roles] }],
    session_id: null,
  };
}

/** Throws where the caller is no member of the tenant and has begun no visit of it. */
async function requireWayInto(tenantId: string, { caller, call }: Request): Promise<void> {
  const memberships = await call('tenant-config.members.of', { user_id: caller.id });
  const isMember = memberships.some(({ tenant_id: id }) => id === tenantId);
  const visit = isMember ? undefined : await visitOfCaller(caller, tenantId, call);
  requireMembership(visit ? [visit] : memberships, tenantId);
}

/**
 * Ends sessions of the caller's account, and mails its owner where one of them is not the session
 * of this request. Nodes drop those that ended before as well.
 */
async function endOwnSessions(
  ids: readonly string[],
  event: EventDraft,
  request: Request,
  { db, notices }: AuthParts,
  endedBefore: readonly string[] = [],
): Promise<void> {
  const { id: userId, session_id: currentId } = request.caller;
  const endsOthers = ids.some((id) => id !== currentId);
  const owner = endsOthers ? await findUser(db.manager, userId) : null;
  await endSessions(db, request, [...ids, ...endedBefore], event);
  if (owner) notices.send(owner.email, { kind: 'sessions_ended' }, request);
}

async function stateOf(
  manager: EntityManager,
  id: string,
  settings: Settings,
): Promise<SessionState | null> {
  const session = await manager.findOneBy(SessionEntity, { id });
  const user = session && (await findUser(manager, session.user_id));
  if (!user) return null;
  const isOver =
    session.revoked_at !== null ||
    (await manager.existsBy(SessionEntity, { id, expires_at: hasPassed() }));
  const isActive = !isOver && user.status === 'active';
  const platformRoles = platformRolesIn(session, user, settings);
  return {
    session_id: id,
    user_id: user.id,
    tenant_id: session.tenant_id,
    platform_roles: platformRoles,
    status: isActive ? 'active' : 'revoked',
    authenticated_at: session.authenticated_at.toISOString(),
    method: session.method,
    ...(session.confined_to !== null && { confined_to: session.confined_to }),
    sign_in_policy: platformPolicyFor(platformRoles, settings),
  };
}

export function sessionActions(parts: AuthParts) {
  const { db, settings, signIn } = parts;
  return {
    async 'auth.logout'({ body: { all = false } }, request) {
      const { caller } = request;
      const ownId = caller.session_id === undefined ? [] : [caller.session_id];
      const known = all ? await sessionsToEnd(db.manager, caller.id, caller.confined_to) : [];
      const idsOf = (sessions: typeof known) => sessions.map(({ id }) => id);
      const ids = [...new Set([...ownId, ...idsOf(known.filter((each) => each.is_open))])];
      // An API key has no session, and a service account none at all.
      if (ids.length === 0) return null;
      const payload = { all, session_id: caller.session_id ?? null, sessions_ended: ids.length };
      const event = identityEvent('auth.logged_out', caller.id, payload);
      await endOwnSessions(ids, event, request, parts, idsOf(known));
      return null;
    },

    async 'auth.sessions.list'({ limit = defaultLimit, cursor }, { caller }) {
      const after = decodeCursor(cursor, 'id') ?? null;
      const rows = await db.query<SessionRow[]>(
        `SELECT * FROM auth.sessions WHERE user_id = $1 AND revoked_at IS NULL AND expires_at > now()
           AND ($4::uuid IS NULL OR confined_to = $4)
           AND ($2::text IS NULL OR (created_at, id) < (SELECT created_at, id FROM auth.sessions WHERE user_id = $1 AND id::text = $2))
         ORDER BY created_at DESC, id DESC LIMIT $3`,
        [caller.id, after, limit + 1, caller.confined_to ?? null],
      );
      return pageOf(
        rows,
        limit,
        ({ id }) => id,
        (row) => sessionView(row, caller.session_id),
      );
    },

    async 'auth.sessions.end'({ session_id: id }, request) {
      const userId = request.caller.id;
      const open = { id, user_id: userId, revoked_at: IsNull() };
      const session = await db.manager.findOneBy(SessionEntity, open);
      if (!session) {
        await dropAgain(db, request, authScope, [sessionCacheKey({ session_id: id })]);
        throw new StrataError('not_found', 'You have no such session.');
      }
      requireGoodFor(request.caller.confined_to, session.confined_to);
      const payload = { session_id: id };
      const event = identityEvent('auth.session_ended', userId, payload);
      await endOwnSessions([id], event, request, parts);
      return null;
    },

    /**
     * The refresh token in use stays good until either is exchanged, so that a lost answer logs
     * nobody out.
     */
    async 'auth.switch-tenant'({ body: { tenant_id: tenantId } }, request) {
      const { user_id: userId, session_id: sessionId } = ownSessionOf(request.caller);
      await requireWayInto(tenantId, request);
      const holder = holderOf(request.caller);
      await takeShares(db, request.caller, [
        shareOf('tenant switch', holder, settings(), 'tenant_switches_per_minute'),
      ]);
      const result = await commitChange(db, request, authScope, async (manager) => {
        const open = { id: sessionId, revoked_at: IsNull() };
        const before = await lockRow(manager, SessionEntity, open);
        if (!before) throw new StrataError('auth_session_revoked');
        requireGoodFor(before.confined_to, tenantId);
        const now = await databaseTime(manager);
        const change = { tenant_id: tenantId, last_used_at: now };
        await manager.update(SessionEntity, { id: sessionId }, change);
        const { bytes: key } = refreshKeysOf(settings()).current;
        const refreshToken = await putTokenBeside(manager, sessionId, key, now);
        const payload = { session_id: sessionId };
        const event = entryEvent('auth.tenant_switched', userId, tenantId, payload);
        return {
          result: { session: { ...before, ...change }, refreshToken },
          keys: [sessionCacheKey({ session_id: sessionId })],
          events: [event],
        };
      });
      const user = await db.manager.findOneByOrFail(UserEntity, { id: userId });
      return signIn.tokenResponse(user, result, request.call);
    },

    async 'auth.me'(_params, { caller, call }) {
      if (caller.type === 'service_account') return serviceAccountOf(caller, call);
      const user = await findUser(db.manager, caller.id);
      if (!user || user.erasing_since !== null)
        throw new StrataError('not_found', 'There is no account for this caller.');
      const memberships = await call('tenant-config.members.of', { user_id: user.id });
      const member = memberships.find(({ tenant_id: id }) => id === caller.tenant_id);
      const current = member ?? (await visitOfCaller(caller, caller.tenant_id, call)) ?? null;
      return {
        ...identityOf(user, current, memberships, caller.confined_to ?? null, settings()),
        service_account: null,
        session_id: caller.session_id ?? null,
      };
    },

    /** Those in other tenants continue, of which this one knows nothing. */
    async 'auth.sessions.end-in'({ tenant_id: tenantId, user_id: userId }, request) {
      await commitChange(db, request, authScope, async (manager) => ({
        result: undefined,
        keys: await endSessionsIn(manager, userId, tenantId),
        events: [],
      }));
      return null;
    },

    'auth.sessions.resolve': ({ session_id: id }) =>
      readSnapshot(db, authScope, (manager) => stateOf(manager, id, settings())),
  } satisfies Handlers;
}
