import { IsNull, type DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import { authScope } from '../../../shared/contracts/revision-scopes.ts';
import { StrataError } from '../../../shared/errors.ts';
import { commitChange, readSnapshot } from '../../../shared/commits/commit.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import { deriveKey } from '../../../shared/security/derived-keys.ts';
import type { Settings } from '../../../shared/settings.ts';
import { needsRehash, type Passwords } from '../rules/passwords.ts';
import type { CheckPassword } from '../credentials.ts';
import {
  judgeRefresh,
  newRefreshToken,
  refreshHash,
  successorOf,
} from '../rules/refresh-tokens.ts';
import { RefreshEntity, SessionEntity, UserEntity, type SessionRow } from '../schema.ts';
import { authEvent as event, chooseTenant, sessionKey, type SignIn } from '../sign-in.ts';
import { platformRoles } from './accounts.ts';

const sessionOf = (row: SessionRow, current: string | undefined) => ({
  id: row.id,
  tenant_id: row.tenant_id,
  created_at: row.created_at.toISOString(),
  last_used_at: row.last_used_at.toISOString(),
  expires_at: row.expires_at.toISOString(),
  ip: row.ip,
  user_agent: row.user_agent,
  current: row.id === current,
});

export interface SessionDependencies {
  readonly passwords: Passwords;
  readonly checkPassword: CheckPassword;
  readonly signIn: SignIn;
}

export function sessionActions(
  db: DataSource,
  settings: () => Settings,
  { passwords, checkPassword, signIn: { identityOf, answer, open, revoke } }: SessionDependencies,
) {
  return {
    async 'auth.login'({ body: { email, password, tenant_id: asked } }, request) {
      const user = await checkPassword(email, password, request);
      const memberships = await request.call('tenant-config.members.of', { user_id: user.id });
      const tenant = chooseTenant(memberships, asked);
      const { session, refresh } = await db.transaction(async (manager) => {
        // Locked until the session is there: whoever changes the password or disables the account afterwards ends this session too.
        const current = await manager.findOne(UserEntity, {
          where: { id: user.id },
          lock: { mode: 'pessimistic_read' },
        });
        const same =
          current?.password_hash === user.password_hash ||
          (await passwords.verify(current?.password_hash ?? null, password));
        if (current?.status !== 'active' || !same)
          throw new StrataError('auth_invalid_credentials');
        return open(manager, current, tenant, request, 'password');
      });
      if (needsRehash(user.password_hash!)) {
        await db.manager.update(
          UserEntity,
          { id: user.id, password_hash: user.password_hash! },
          { password_hash: await passwords.hash(password) },
        );
      }
      return answer(user, session, refresh, request.call);
    },

    async 'auth.refresh'({ body: { refresh_token: presented } }, request) {
      const hash = refreshHash(presented);
      const found = await db.transaction(async (manager) => {
        const known = await manager.findOneBy(RefreshEntity, { hash });
        const session =
          known &&
          (await manager.findOne(SessionEntity, {
            where: { id: known.session_id },
            lock: { mode: 'pessimistic_write' },
          }));
        const token = session && (await manager.findOneBy(RefreshEntity, { hash }));
        const next = token?.successor
          ? await manager.findOneBy(RefreshEntity, { hash: token.successor })
          : null;
        const now = new Date();
        const judgement = judgeRefresh(token, session, next?.used_at != null, now);
        const successor = successorOf(
          presented,
          deriveKey(settings().secret_key!, 'refresh token'),
        );
        if (judgement === 'rotate') {
          // Also a token beside it, from a change of tenant: whoever goes on from both holds one that was stolen.
          await manager.update(
            RefreshEntity,
            { session_id: session!.id, used_at: IsNull() },
            { used_at: now },
          );
          await manager.update(RefreshEntity, { hash }, { successor: refreshHash(successor) });
          await manager.insert(RefreshEntity, {
            hash: refreshHash(successor),
            session_id: session!.id,
            created_at: now,
            used_at: null,
            successor: null,
          });
          await manager.update(SessionEntity, { id: session!.id }, { last_used_at: now });
        }
        return { judgement, session, successor };
      });
      const { judgement, session, successor } = found;
      if (judgement === 'reused') {
        await revoke(
          request,
          [session!.id],
          [
            event('auth.refresh_reused', session!.user_id, session!.tenant_id, {
              session_id: session!.id,
            }),
          ],
        );
        throw new StrataError('auth_refresh_reused');
      }
      if (judgement === 'expired') throw new StrataError('auth_refresh_expired');
      if (judgement === 'invalid') throw new StrataError('auth_refresh_invalid');
      const user = await db.manager.findOneBy(UserEntity, { id: session!.user_id });
      if (user?.status !== 'active') throw new StrataError('auth_refresh_invalid');
      return answer(user, session!, successor, request.call);
    },

    async 'auth.logout'({ body: { all = false } }, request) {
      const { caller } = request;
      const own = caller.session_id === undefined ? [] : [caller.session_id];
      const ids = all
        ? (
            await db.query<{ id: string }[]>(
              'SELECT id FROM auth.sessions WHERE user_id = $1 AND revoked_at IS NULL',
              [caller.id],
            )
          ).map(({ id }) => id)
        : own;
      await revoke(request, ids, [
        event('auth.logged_out', caller.id, caller.tenant_id, { all, sessions: ids }),
      ]);
      return null;
    },

    async 'auth.sessions.list'({ limit = defaultLimit, cursor }, { caller }) {
      const rows = await db.query<SessionRow[]>(
        `SELECT * FROM auth.sessions WHERE user_id = $1 AND revoked_at IS NULL AND expires_at > now()
           AND ($2::text IS NULL OR (created_at, id) < (SELECT created_at, id FROM auth.sessions WHERE user_id = $1 AND id::text = $2))
         ORDER BY created_at DESC, id DESC LIMIT $3`,
        [caller.id, decodeCursor(cursor, 'id') ?? null, limit + 1],
      );
      return pageOf(
        rows,
        limit,
        ({ id }) => id,
        (row) => sessionOf(row, caller.session_id),
      );
    },

    async 'auth.sessions.end'({ session_id: id }, request) {
      const { caller } = request;
      const session = await db.manager.findOneBy(SessionEntity, {
        id,
        user_id: caller.id,
        revoked_at: IsNull(),
      });
      if (!session) throw new StrataError('not_found', 'You have no such session.');
      await revoke(
        request,
        [id],
        [event('auth.session_ended', caller.id, session.tenant_id, { session_id: id })],
      );
      return null;
    },

    /** The refresh token in use stays good until either is exchanged, so that a lost answer logs nobody out. */
    async 'auth.switch-tenant'({ body: { tenant_id: asked } }, request) {
      const { caller } = request;
      const { session_id: id } = caller;
      if (id === undefined)
        throw new StrataError('auth_token_invalid', 'This needs a session of your own.');
      const tenant = chooseTenant(
        await request.call('tenant-config.members.of', { user_id: caller.id }),
        asked,
      )!;
      const refresh = newRefreshToken();
      const { result: session } = await commitChange(db, request, authScope, async (manager) => {
        const found = await manager.findOne(SessionEntity, {
          where: { id, revoked_at: IsNull() },
          lock: { mode: 'pessimistic_write' },
        });
        if (!found) throw new StrataError('auth_session_revoked');
        const now = new Date();
        await manager.update(
          SessionEntity,
          { id: found.id },
          { tenant_id: tenant.tenant_id, last_used_at: now },
        );
        await manager.insert(RefreshEntity, {
          hash: refreshHash(refresh),
          session_id: found.id,
          created_at: now,
          used_at: null,
          successor: null,
        });
        return {
          result: { ...found, tenant_id: tenant.tenant_id },
          keys: [sessionKey(found.id)],
          events: [
            event('auth.tenant_switched', caller.id, tenant.tenant_id, {
              session_id: found.id,
              from: found.tenant_id,
            }),
          ],
        };
      });
      return answer(
        await db.manager.findOneByOrFail(UserEntity, { id: caller.id }),
        session,
        refresh,
        request.call,
      );
    },

    async 'auth.me'(_params, { caller, call }) {
      const user = await db.manager.findOneBy(UserEntity, { id: caller.id });
      if (!user) throw new StrataError('not_found', 'There is no account for this caller.');
      const memberships = await call('tenant-config.members.of', { user_id: user.id });
      const tenant = memberships.find(({ tenant_id: id }) => id === caller.tenant_id) ?? null;
      return { ...identityOf(user, tenant, memberships), session_id: caller.session_id ?? null };
    },

    'auth.sessions.resolve': ({ session_id: id }) =>
      readSnapshot(db, authScope, async (manager) => {
        const session = await manager.findOneBy(SessionEntity, { id });
        const user = session && (await manager.findOneBy(UserEntity, { id: session.user_id }));
        if (!session || !user) return null;
        const active =
          session.revoked_at === null &&
          session.expires_at > new Date() &&
          user.status === 'active';
        return {
          session_id: id,
          user_id: user.id,
          tenant_id: session.tenant_id,
          platform_roles: platformRoles(user, settings()),
          status: active ? ('active' as const) : ('revoked' as const),
          authenticated_at: session.authenticated_at.toISOString(),
        };
      }),
  } satisfies Handlers;
}
