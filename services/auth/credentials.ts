import type { DataSource } from 'typeorm';
import type { Request } from '../../shared/cluster/request.ts';
import { StrataError } from '../../shared/errors.ts';
import { auditFacts, recordEvents } from '../../shared/commits/commit.ts';
import { addressOf } from './actions/accounts.ts';
import type { Passwords } from './rules/passwords.ts';
import { throttleKey } from './rules/throttle.ts';
import { UserEntity, type UserRow } from './schema.ts';
import type { Throttle } from './throttle.ts';

export type CheckPassword = (email: string, password: string, request: Request) => Promise<UserRow>;

/** The account that e-mail and password are of. Unknown, wrong and disabled are alike in answer, time and count, and audited. */
export const createCheckPassword =
  (db: DataSource, passwords: Passwords, throttle: Throttle): CheckPassword =>
  (email, password, request) => {
    const address = addressOf(email);
    return throttle.attempt(
      throttleKey('password', address, request.client.ip),
      request.log,
      async () => {
        const user = await db.manager.findOneBy(UserEntity, { email: address });
        const usable = user?.status === 'active' ? user : null;
        if (await passwords.verify(usable?.password_hash ?? null, password)) return usable!;
        await recordEvents(db.manager, [
          auditFacts(
            {
              action: 'auth.login_failed',
              tenant_id: null,
              target: user?.id ?? null,
              payload: { email: address },
              actor: { type: 'system', id: 'auth' },
            },
            request,
          ),
        ]);
        throw new StrataError('auth_invalid_credentials');
      },
    );
  };
