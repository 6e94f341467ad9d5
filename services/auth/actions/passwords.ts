import { createHash, randomBytes } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../shared/cluster/request.ts';
import { authScope } from '../../../shared/contracts/revision-scopes.ts';
import { StrataError } from '../../../shared/errors.ts';
import { auditFacts, commitChange, recordEvents } from '../../../shared/commits/commit.ts';
import type { Settings } from '../../../shared/settings.ts';
import type { ShortLived } from '../../../shared/short-lived-state.ts';
import type { CheckPassword } from '../credentials.ts';
import { resetMail, resetSeconds } from '../rules/reset-mail.ts';
import { requireGood, type Passwords } from '../rules/passwords.ts';
import { throttleKey } from '../rules/throttle.ts';
import { UserEntity, type UserRow } from '../schema.ts';
import type { SendSoon } from '../send-soon.ts';
import { authEvent as event, endSessions } from '../sign-in.ts';
import type { Throttle } from '../throttle.ts';
import { addressOf } from './accounts.ts';
import { apiKeyKeysOf } from './api-keys.ts';

/** What a reset link is for. A changed password makes it void, and with it every other link that is on its way. */
interface Grant {
  readonly user_id: string;
  readonly from: string;
}

const digest = (text: string): string => createHash('sha256').update(text).digest('base64url');
const grantFor = (user: UserRow): Grant => ({
  user_id: user.id,
  from: digest(user.password_hash ?? ''),
});
const keyOf = (token: string): string => `password_reset:${digest(token)}`;

export interface PasswordDependencies {
  readonly passwords: Passwords;
  readonly checkPassword: CheckPassword;
  readonly throttle: Throttle;
  readonly shortLived: ShortLived;
  readonly sendSoon: SendSoon;
}

export function passwordActions(
  db: DataSource,
  settings: () => Settings,
  { passwords, checkPassword, throttle, shortLived, sendSoon }: PasswordDependencies,
) {
  const lockUser = (manager: EntityManager, id: string): Promise<UserRow | null> =>
    manager.findOne(UserEntity, {
      where: { id, status: 'active' },
      lock: { mode: 'pessimistic_write' },
    });

  return {
    async 'auth.password.change'(
      { body: { current_password: current, new_password: next } },
      request,
    ) {
      const { caller } = request;
      const user = await db.manager.findOneBy(UserEntity, { id: caller.id });
      if (!user) throw new StrataError('not_found', 'There is no account for this caller.');
      requireGood(next, '/new_password');
      await checkPassword(user.email, current, request);
      const hash = await passwords.hash(next);
      await commitChange(db, request, authScope, async (manager) => {
        const locked = await lockUser(manager, user.id);
        if (locked?.password_hash !== user.password_hash)
          throw new StrataError('auth_invalid_credentials');
        await manager.update(UserEntity, { id: user.id }, { password_hash: hash });
        const keys = await endSessions(manager, user.id, caller.session_id);
        return {
          result: undefined,
          keys,
          events: [
            event('auth.password_changed', user.id, caller.tenant_id, {
              sessions_ended: keys.length,
            }),
          ],
        };
      });
      return null;
    },

    /** The same steps for an account that is there and for none; the mail is sent after the answer. */
    async 'auth.password.forgot'({ body: { email } }, request) {
      const address = addressOf(email);
      await throttle.count(throttleKey('forgot', address, request.client.ip), request.log);
      const user = await db.manager.findOneBy(UserEntity, { email: address });
      const usable = user?.status === 'active' ? user : null;
      const token = randomBytes(32).toString('base64url');
      await shortLived.put(keyOf(token), usable && grantFor(usable), resetSeconds);
      await recordEvents(db.manager, [
        auditFacts(
          {
            action: 'auth.password_reset_requested',
            tenant_id: null,
            target: user?.id ?? null,
            payload: { email: address },
            actor: { type: 'system', id: 'auth' },
          },
          request,
        ),
      ]);
      if (usable)
        sendSoon(
          resetMail(address, `${settings().frontend_origin}/reset-password#token=${token}`),
          request.log,
        );
      return { expires_in: resetSeconds };
    },

    /** The link came by mail, so the address is proven to be the account's. */
    async 'auth.password.reset'({ body: { token, new_password: next } }, request: Request) {
      requireGood(next, '/new_password');
      const hash = await passwords.hash(next);
      const grant = await shortLived.take<Grant>(keyOf(token));
      if (!grant) throw new StrataError('auth_password_reset_invalid');
      const { result: user } = await commitChange(db, request, authScope, async (manager) => {
        const locked = await lockUser(manager, grant.user_id);
        if (!locked || grantFor(locked).from !== grant.from)
          throw new StrataError('auth_password_reset_invalid');
        await manager.update(
          UserEntity,
          { id: locked.id },
          { password_hash: hash, email_verified: true },
        );
        const sessions = await endSessions(manager, locked.id);
        return {
          // A verified address may make a platform administrator, so what is kept of API keys changes too.
          result: locked,
          keys: [...sessions, ...(await apiKeyKeysOf(manager, locked.id))],
          events: [
            event('auth.password_reset', locked.id, null, { sessions_ended: sessions.length }),
          ],
        };
      });
      await throttle.forgive(throttleKey('password', user.email, request.client.ip), request.log);
      return null;
    },
  } satisfies Handlers;
}
