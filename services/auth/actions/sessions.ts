import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/broker/request.ts';
import { authScope } from '../../../shared/contracts/auth.ts';
import { StrataError } from '../../../shared/errors.ts';
import { auditFacts, readSnapshot, recordEvents } from '../../../shared/outbox/commit.ts';
import { deriveKey } from '../../../shared/secrets.ts';
import type { Settings } from '../../../shared/settings.ts';
import { classified } from '../rules/classify.ts';
import { needsRehash, type Passwords } from '../rules/passwords.ts';
import { judgeRefresh, refreshHash, successorOf } from '../rules/refresh-tokens.ts';
import { RefreshEntity, SessionEntity, UserEntity } from '../schema.ts';
import { authEvent as event, chooseTenant, type SignIn } from '../sign-in.ts';
import { addressOf, platformRoles } from './accounts.ts';

export function sessionActions(db: DataSource, settings: () => Settings, passwords: Passwords, { identityOf, answer, open, revoke }: SignIn) {
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
