/** Proves an e-mail address and a password, for signing in and for changing the password. */
import type { DataSource } from 'typeorm';
import type { Request } from '../../../shared/cluster/request.ts';
import { StrataError } from '../../../shared/errors.ts';
import { addressOf } from '../rules/accounts.ts';
import { networkOf, throttleKey } from '../rules/throttle.ts';
import type { UserRow } from '../schema.ts';
import { anonymousEvent, recordEvent } from '../stores/audit-events.ts';
import { findUserByAddress } from '../stores/users.ts';
import type { PasswordHashing } from './password-hashing.ts';
import type { Throttle } from './throttle.ts';

/** Gives the account; throws `auth_invalid_credentials`, or `rate_limited` after too many failures. */
export type CheckPassword = (email: string, password: string, request: Request) => Promise<UserRow>;

/** An unknown address, a wrong password and a disabled account are alike in answer, time, count and audit. */
export function createCheckPassword(
  db: DataSource,
  hashing: PasswordHashing,
  throttle: Throttle,
): CheckPassword {
  async function attempt(address: string, password: string, request: Request): Promise<UserRow> {
    const user = await findUserByAddress(db.manager, address);
    const usable = user?.status === 'active' ? user : null;
    const network = networkOf(request.client.ip);
    const matches = await hashing.verify(usable?.password_hash ?? null, password, network);
    if (usable && matches) return usable;
    const event = anonymousEvent('auth.login_failed', user?.id ?? null, { email: address });
    await recordEvent(db.manager, event, request);
    throw new StrataError('auth_invalid_credentials');
  }

  return (email, password, request) => {
    const address = addressOf(email);
    const key = throttleKey('password', address, request.client.ip);
    return throttle.attempt(key, request.log, () => attempt(address, password, request));
  };
}
