/**
 * What every way of signing in ends with: a session, its tokens and what they say of the user. An
 * action that has proved who somebody is calls `complete`; nothing else is needed for a new way of
 * signing in.
 */
import type { DataSource, EntityManager } from 'typeorm';
import type { Call, Request } from '../../../shared/contract-runtime/request.ts';
import { noteActor, platformRealm } from '../../../shared/commits/actor-names.ts';
import type { ErrorCode } from '../../../shared/contracts/error-codes.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { StrataError } from '../../../shared/errors.ts';
import { synchronizedNow } from '../../../shared/process/synchronized-clock.ts';
import { createAccessTokens } from '../../../shared/security/access-tokens.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { accountOf, platformRolesIn, platformRolesOf } from '../accounts/rules/accounts.ts';
import {
  landingMembership,
  requireMembership,
  type Membership,
} from '../accounts/rules/memberships.ts';
import { idleSeconds } from './rules/refresh-tokens.ts';
import type { SessionRow, UserRow } from '../schema.ts';
import { visitOf } from './visits.ts';
import { entryEvent, identityEvent, recordEvent } from '../stores/audit-events.ts';
import {
  endSessions,
  findLastUsedTenant,
  idsBeyond,
  insertSession,
  requireGoodFor,
  type Authentication,
  type OpenedSession,
} from './stores/sessions.ts';
import { lockForSignIn } from '../accounts/stores/users.ts';

export type TokenResponse = ResultOf<'auth.login'>;

/**
 * Who somebody has proved to be, and what is still to be checked in the transaction that makes the
 * session.
 */
export interface ProvenIdentity {
  readonly userId: string;
  readonly authentication: Authentication;
  /** What the session is for; null without a tenant. */
  readonly membership: Membership | null;
  /**
   * Whether the proof still holds while the account is locked. What it writes is kept, also where
   * it does not.
   */
  readonly confirm: (manager: EntityManager, user: UserRow) => Promise<boolean>;
  /** Thrown where the proof no longer holds, or the account has been disabled or removed since. */
  readonly refusal: ErrorCode;
}

/** Who the user is, in which tenant, and where else they could go: nowhere where confined. */
export const identityOf = (
  user: UserRow,
  current: Membership | null,
  memberships: readonly Membership[],
  confinedTo: string | null,
  settings: Settings,
) => ({
  user: {
    ...accountOf(user, settings),
    platform_roles: platformRolesIn({ confined_to: confinedTo }, user, settings),
  },
  tenant: current && { id: current.tenant_id, name: current.tenant_name, roles: current.roles },
  ...(current?.visit && { visit: current.visit }),
  memberships: memberships
    .filter(({ tenant_id: id }) => confinedTo === null || id === confinedTo)
    .map(({ tenant_id, tenant_name: name, roles }) => ({ tenant_id, name, roles })),
});

export type SignIn = ReturnType<typeof createSignIn>;

export function createSignIn(db: DataSource, settings: () => Settings) {
  /**
   * What a new session is for: the wanted tenant, or where its user lands. Throws
   * `auth_no_tenant_membership` or `auth_tenant_disabled`, the latter also for whoever has nothing
   * but disabled tenants to sign in for.
   */
  async function membershipFor(
    user: UserRow,
    wantedTenant: string | undefined,
    call: Call,
  ): Promise<Membership | null> {
    const memberships = await call('tenant-config.members.of', { user_id: user.id });
    if (wantedTenant !== undefined) return requireMembership(memberships, wantedTenant);
    const tenantIds = memberships.map(({ tenant_id: id }) => id);
    const landing = landingMembership(
      memberships,
      await findLastUsedTenant(db.manager, user.id, tenantIds),
    );
    const isPlatformAdmin = platformRolesOf(user, settings()).length > 0;
    const isShutOut = memberships.every(({ tenant_status: status }) => status === 'disabled');
    if (memberships.length > 0 && isShutOut && !isPlatformAdmin)
      throw new StrataError('auth_tenant_disabled');
    return landing;
  }

  /** Before any token is given, so that whatever is done with it has a name. */
  async function noteName(user: UserRow, membership: Membership | null): Promise<void> {
    const { id, email: address, display_name: displayName } = user;
    const realms = [platformRealm, ...(membership ? [membership.tenant_id] : [])];
    await noteActor(db.manager, realms, { id, name: displayName ?? address, address });
  }

  /**
   * A fresh access token for a session, with the refresh token to continue it. Roles are those of
   * now; `known` where the caller has just read the memberships.
   */
  async function tokenResponse(
    user: UserRow,
    { session, refreshToken }: OpenedSession,
    call: Call,
    known?: readonly Membership[],
  ): Promise<TokenResponse> {
    const memberships = known ?? (await call('tenant-config.members.of', { user_id: user.id }));
    const membership = memberships.find(({ tenant_id: id }) => id === session.tenant_id) ?? null;
    // A tenant knows those who visit it by no name.
    await noteName(user, membership);
    const current = settings();
    const platformRoles = platformRolesIn(session, user, current);
    const visiting = membership
      ? undefined
      : await visitOf(
          { userId: user.id, sessionId: session.id, tenantId: session.tenant_id, platformRoles },
          call,
        );
    const membershipOrVisit = membership ?? visiting ?? null;
    const secondsLeft = Math.floor((session.expires_at.getTime() - synchronizedNow()) / 1000);
    // Nodes that know the session look no more whether its time is over: no token outlives it.
    const expiresIn = Math.max(1, Math.min(current.access_token_ttl_seconds, secondsLeft));
    const claims = {
      sub: user.id,
      sid: session.id,
      tid: session.tenant_id,
      roles: [...platformRoles, ...(membershipOrVisit?.roles ?? [])],
    };
    const accessToken = createAccessTokens(current).issue(claims, expiresIn);
    return {
      access_token: accessToken,
      token_type: 'Bearer',
      expires_in: expiresIn,
      refresh_token: refreshToken,
      refresh_expires_in: Math.min(idleSeconds, secondsLeft),
      session_id: session.id,
      ...identityOf(user, membershipOrVisit, memberships, session.confined_to, current),
    };
  }

  /** Of more sessions than a person may have open those that were used longest ago end. */
  async function endOldest(session: SessionRow, request: Request): Promise<void> {
    const ids = await idsBeyond(db.manager, session, settings().sessions_per_person);
    if (ids.length === 0) return;
    const payload = { session_ids: ids, because: 'SESSIONS_PER_PERSON' };
    const event = identityEvent('auth.session_ended', session.user_id, payload);
    await endSessions(db, request, ids, event);
  }

  /** Makes the session, audits it, and gives its tokens. */
  async function complete(identity: ProvenIdentity, request: Request): Promise<TokenResponse> {
    const { userId, authentication, membership, confirm, refusal } = identity;
    const tenantId = membership?.tenant_id ?? null;
    requireGoodFor(authentication.confinedTo, tenantId);
    const opened = await db.transaction(async (manager) => {
      const user = await lockForSignIn(manager, userId);
      if (!user) return null;
      const confirmed = await confirm(manager, user);
      if (!confirmed) return null;
      const session = await insertSession(
        manager,
        userId,
        tenantId,
        authentication,
        request.client,
      );
      const { method, providerId } = authentication;
      const payload = {
        method,
        session_id: session.session.id,
        ...(providerId !== undefined && { provider_id: providerId }),
      };
      const event = entryEvent('auth.login_succeeded', userId, tenantId, payload);
      await recordEvent(manager, event, request);
      return { user, session };
    });
    if (!opened) throw new StrataError(refusal);
    await endOldest(opened.session.session, request);
    return tokenResponse(opened.user, opened.session, request.call);
  }

  return { membershipFor, tokenResponse, complete };
}
