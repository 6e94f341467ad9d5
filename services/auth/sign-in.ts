import { randomUUID } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import { createAccessTokens } from '../../shared/security/access-tokens.ts';
import type { Call, Request } from '../../shared/cluster/request.ts';
import { authContracts } from '../../shared/contracts/auth.ts';
import { authScope } from '../../shared/contracts/revision-scopes.ts';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { StrataError } from '../../shared/errors.ts';
import {
  auditFacts,
  commitChange,
  recordEvents,
  type EventDraft,
} from '../../shared/commits/commit.ts';
import type { Settings } from '../../shared/settings.ts';
import { accountOf, platformRoles } from './actions/accounts.ts';
import {
  absoluteSeconds,
  idleSeconds,
  newRefreshToken,
  refreshHash,
} from './rules/refresh-tokens.ts';
import { RefreshEntity, SessionEntity, type SessionRow, type UserRow } from './schema.ts';

export type Membership = ResultOf<'tenant-config.members.of'>[number];
export type TokenResponse = ResultOf<'auth.login'>;
export type SignIn = ReturnType<typeof createSignIn>;

export const sessionKey = (id: string): string =>
  authContracts['auth.sessions.resolve'].cache!.key({ session_id: id } as never);

export const authEvent = (
  action: string,
  user: string,
  tenant: string | null,
  payload: unknown = {},
): EventDraft => ({
  action,
  tenant_id: tenant,
  target: user,
  payload,
  actor: { type: 'user', id: user },
});

/** The membership that a session is for: the one asked for, else the first usable one. A platform admin needs none. */
export function chooseTenant(
  memberships: readonly Membership[],
  asked: string | undefined,
): Membership | null {
  const chosen =
    asked === undefined
      ? (memberships.find(({ tenant_status: status }) => status === 'active') ?? memberships[0])
      : memberships.find(({ tenant_id: id }) => id === asked);
  if (asked !== undefined && !chosen) throw new StrataError('auth_no_tenant_membership');
  if (chosen?.tenant_status === 'disabled') throw new StrataError('auth_tenant_disabled');
  return chosen ?? null;
}

/** Ends an account's sessions, but for one. Gives the cache keys to drop with the change. */
export async function endSessions(
  manager: EntityManager,
  userId: string,
  kept?: string,
): Promise<string[]> {
  const [ended] = await manager.query<[{ id: string }[], number]>(
    'UPDATE auth.sessions SET revoked_at = now() WHERE user_id = $1 AND revoked_at IS NULL AND id IS DISTINCT FROM $2 RETURNING id',
    [userId, kept ?? null],
  );
  return ended.map(({ id }) => sessionKey(id));
}

/** What every way of signing in ends with: a session, its tokens and what they say of the user. */
export function createSignIn(db: DataSource, settings: () => Settings) {
  const identityOf = (
    user: UserRow,
    tenant: Membership | null,
    memberships: readonly Membership[],
  ) => ({
    user: accountOf(user, settings()),
    tenant: tenant && { id: tenant.tenant_id, name: tenant.tenant_name, roles: tenant.roles },
    memberships: memberships.map(({ tenant_id, tenant_name: name, roles }) => ({
      tenant_id,
      name,
      roles,
    })),
  });

  /** The TokenResponse of a session. */
  async function answer(
    user: UserRow,
    session: SessionRow,
    refresh: string,
    call: Call,
  ): Promise<TokenResponse> {
    const memberships = await call('tenant-config.members.of', { user_id: user.id });
    const tenant = memberships.find(({ tenant_id: id }) => id === session.tenant_id) ?? null;
    const current = settings();
    const access = createAccessTokens(current).issue({
      sub: user.id,
      sid: session.id,
      tid: session.tenant_id,
      roles: [...platformRoles(user, current), ...(tenant?.roles ?? [])],
    });
    const left = Math.floor((session.expires_at.getTime() - Date.now()) / 1000);
    return {
      access_token: access,
      token_type: 'Bearer',
      expires_in: current.access_token_ttl_seconds,
      refresh_token: refresh,
      refresh_expires_in: Math.min(idleSeconds, left),
      session_id: session.id,
      ...identityOf(user, tenant, memberships),
    };
  }

  /** A new session with its first refresh token, audited, inside the caller's transaction. `method` is `password`, `passkey` or `sso`. */
  async function open(
    manager: EntityManager,
    user: UserRow,
    tenant: Membership | null,
    request: Request,
    method: string,
  ) {
    const now = new Date();
    const session: SessionRow = {
      id: randomUUID(),
      user_id: user.id,
      tenant_id: tenant?.tenant_id ?? null,
      created_at: now,
      authenticated_at: now,
      last_used_at: now,
      expires_at: new Date(now.getTime() + absoluteSeconds * 1000),
      revoked_at: null,
      user_agent: request.client.user_agent ?? null,
      ip: request.client.ip ?? null,
    };
    const refresh = newRefreshToken();
    await manager.insert(SessionEntity, session);
    await manager.insert(RefreshEntity, {
      hash: refreshHash(refresh),
      session_id: session.id,
      created_at: now,
      used_at: null,
      successor: null,
    });
    await recordEvents(manager, [
      auditFacts(
        authEvent('auth.login_succeeded', user.id, session.tenant_id, {
          method,
          session_id: session.id,
        }),
        request,
      ),
    ]);
    return { session, refresh };
  }

  /** Ends sessions on every node by the time the request is answered. */
  const revoke = (by: Request, ids: readonly string[], drafts: readonly EventDraft[]) =>
    commitChange(db, by, authScope, async (manager) => {
      await manager.query(
        'UPDATE auth.sessions SET revoked_at = now() WHERE id = ANY($1) AND revoked_at IS NULL',
        [ids],
      );
      return { result: undefined, keys: ids.map(sessionKey), events: drafts };
    });

  return { identityOf, answer, open, revoke };
}
