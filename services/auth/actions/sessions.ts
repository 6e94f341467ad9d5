import { randomUUID } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import { createAccessTokens } from '../../../shared/access-tokens.ts';
import type { Call, Handlers, Request } from '../../../shared/broker/request.ts';
import { authContracts, authScope } from '../../../shared/contracts/auth.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { StrataError } from '../../../shared/errors.ts';
import { auditFacts, commitChange, readSnapshot, recordEvents, type EventDraft } from '../../../shared/outbox/commit.ts';
import { deriveKey } from '../../../shared/secrets.ts';
import type { Settings } from '../../../shared/settings.ts';
import { classified } from '../rules/classify.ts';
import { needsRehash, type Passwords } from '../rules/passwords.ts';
import { absoluteSeconds, idleSeconds, judgeRefresh, newRefreshToken, refreshHash, successorOf } from '../rules/refresh-tokens.ts';
import { RefreshEntity, SessionEntity, UserEntity, type SessionRow, type UserRow } from '../schema.ts';
import { accountOf, addressOf, platformRoles } from './accounts.ts';

type Membership = ResultOf<'tenant-config.members.of'>[number];
const sessionKey = (id: string): string => authContracts['auth.sessions.resolve'].cache!.key({ session_id: id } as never);

export function sessionActions(db: DataSource, settings: () => Settings, passwords: Passwords) {
  const event = (action: string, user: string, tenant: string | null, payload: unknown = {}): EventDraft =>
    ({ action, tenant_id: tenant, target: user, payload, actor: { type: 'user', id: user } });

  /** The membership that a session is for: the one asked for, else the only usable one. A platform admin needs none. */
  function chooseTenant(memberships: readonly Membership[], asked: string | undefined): Membership | null {
    const chosen = asked === undefined ? memberships.find(({ tenant_status: status }) => status === 'active') ?? memberships[0]
      : memberships.find(({ tenant_id: id }) => id === asked);
    if (asked !== undefined && !chosen) throw new StrataError('auth_no_tenant_membership');
    if (chosen?.tenant_status === 'disabled') throw new StrataError('auth_tenant_disabled');
    return chosen ?? null;
  }

  const identityOf = (user: UserRow, tenant: Membership | null, memberships: readonly Membership[]) => ({
    user: accountOf(user, settings()),
    tenant: tenant && { id: tenant.tenant_id, name: tenant.tenant_name, roles: tenant.roles },
    memberships: memberships.map(({ tenant_id, tenant_name: name, roles }) => ({ tenant_id, name, roles })),
  });

  async function answer(user: UserRow, session: SessionRow, refresh: string, call: Call) {
    const memberships = await call('tenant-config.members.of', { user_id: user.id });
    const tenant = memberships.find(({ tenant_id: id }) => id === session.tenant_id) ?? null;
    const current = settings();
    const access = createAccessTokens(current).issue({
      sub: user.id, sid: session.id, tid: session.tenant_id, roles: [...platformRoles(user, current), ...tenant?.roles ?? []],
    });
    const left = Math.floor((session.expires_at.getTime() - Date.now()) / 1000);
    return {
      access_token: access, token_type: 'Bearer' as const, expires_in: current.access_token_ttl_seconds,
      refresh_token: refresh, refresh_expires_in: Math.min(idleSeconds, left), session_id: session.id,
      ...identityOf(user, tenant, memberships),
    };
  }

  /** A new session with its first refresh token. */
  async function open(manager: EntityManager, user: UserRow, tenant: Membership | null, request: Request, method: string) {
    const now = new Date();
    const session: SessionRow = {
      id: randomUUID(), user_id: user.id, tenant_id: tenant?.tenant_id ?? null, created_at: now, authenticated_at: now, last_used_at: now,
      expires_at: new Date(now.getTime() + absoluteSeconds * 1000), revoked_at: null, user_agent: null, ip: null,
    };
    const refresh = newRefreshToken();
    await manager.insert(SessionEntity, session);
    await manager.insert(RefreshEntity, { hash: refreshHash(refresh), session_id: session.id, created_at: now, used_at: null, successor: null });
    await recordEvents(manager, [auditFacts(event('auth.login_succeeded', user.id, session.tenant_id, { method, session_id: session.id }), request)]);
    return { session, refresh };
  }

  /** Ends sessions on every node by the time this returns. */
  const revoke = (by: Request, ids: readonly string[], drafts: readonly EventDraft[]) => commitChange(db, by, authScope, async (manager) => {
    await manager.query('UPDATE auth.sessions SET revoked_at = now() WHERE id = ANY($1) AND revoked_at IS NULL', [ids]);
    return { result: undefined, keys: ids.map(sessionKey), events: drafts };
  });

  return {
    'auth.login': classified('auth.login', async ({ body: { email, password, tenant_id: asked } }, request) => {
      const address = addressOf(email);
      const user = await db.manager.findOneBy(UserEntity, { email: address });
      const usable = user?.status === 'active' ? user : null;
      const matches = await passwords.verify(usable?.password_hash ?? null, password);
      if (!usable || !matches) {
        await recordEvents(db.manager, [auditFacts({
          action: 'auth.login_failed', tenant_id: null, target: user?.id ?? null, payload: { email: address }, actor: { type: 'system', id: 'auth' },
        }, request)]);
        throw new StrataError('auth_invalid_credentials');
      }
      const memberships = await request.call('tenant-config.members.of', { user_id: usable.id });
      const tenant = chooseTenant(memberships, asked);
      const rehashed = needsRehash(usable.password_hash!) ? await passwords.hash(password) : undefined;
      const { session, refresh } = await db.transaction(async (manager) => {
        if (rehashed) await manager.update(UserEntity, { id: usable.id }, { password_hash: rehashed });
        return open(manager, usable, tenant, request, 'password');
      });
      return answer(usable, session, refresh, request.call);
    }),

    'auth.refresh': classified('auth.refresh', async ({ body: { refresh_token: presented } }, request) => {
      const hash = refreshHash(presented);
      const found = await db.transaction(async (manager) => {
        const token = await manager.findOne(RefreshEntity, { where: { hash }, lock: { mode: 'pessimistic_write' } });
        const session = token && await manager.findOneBy(SessionEntity, { id: token.session_id });
        const next = token?.successor ? await manager.findOneBy(RefreshEntity, { hash: token.successor }) : null;
        const now = new Date();
        const judgement = judgeRefresh(token, session, next?.used_at != null, now);
        const successor = successorOf(presented, deriveKey(settings().secret_key!, 'refresh token'));
        if (judgement === 'rotate') {
          await manager.update(RefreshEntity, { hash }, { used_at: now, successor: refreshHash(successor) });
          await manager.insert(RefreshEntity, { hash: refreshHash(successor), session_id: session!.id, created_at: now, used_at: null, successor: null });
          await manager.update(SessionEntity, { id: session!.id }, { last_used_at: now });
        }
        return { judgement, session, successor };
      });
      const { judgement, session, successor } = found;
      if (judgement === 'reused') {
        await revoke(request, [session!.id], [event('auth.refresh_reused', session!.user_id, session!.tenant_id, { session_id: session!.id })]);
        throw new StrataError('auth_refresh_reused');
      }
      if (judgement === 'expired') throw new StrataError('auth_refresh_expired');
      if (judgement === 'invalid') throw new StrataError('auth_refresh_invalid');
      const user = await db.manager.findOneBy(UserEntity, { id: session!.user_id });
      if (user?.status !== 'active') throw new StrataError('auth_refresh_invalid');
      return answer(user, session!, successor, request.call);
    }),

    async 'auth.logout'({ body: { all = false } }, request) {
      const { caller } = request;
      const own = caller.session_id === undefined ? [] : [caller.session_id];
      const ids = all ? (await db.query<{ id: string }[]>('SELECT id FROM auth.sessions WHERE user_id = $1 AND revoked_at IS NULL', [caller.id])).map(({ id }) => id) : own;
      await revoke(request, ids, [event('auth.logged_out', caller.id, caller.tenant_id, { all, sessions: ids })]);
      return null;
    },

    async 'auth.me'(_params, { caller, call }) {
      const user = await db.manager.findOneBy(UserEntity, { id: caller.id });
      if (!user) throw new StrataError('not_found', 'There is no account for this caller.');
      const memberships = await call('tenant-config.members.of', { user_id: user.id });
      const tenant = memberships.find(({ tenant_id: id }) => id === caller.tenant_id) ?? null;
      return { ...identityOf(user, tenant, memberships), session_id: caller.session_id ?? null };
    },

    'auth.sessions.resolve': ({ session_id: id }) => readSnapshot(db, authScope, async (manager) => {
      const session = await manager.findOneBy(SessionEntity, { id });
      const user = session && await manager.findOneBy(UserEntity, { id: session.user_id });
      if (!session || !user) return null;
      const active = session.revoked_at === null && session.expires_at > new Date() && user.status === 'active';
      return {
        session_id: id, user_id: user.id, tenant_id: session.tenant_id, platform_roles: platformRoles(user, settings()),
        status: active ? 'active' as const : 'revoked' as const, authenticated_at: session.authenticated_at.toISOString(),
      };
    }),
  } satisfies Handlers;
}
