/** Proves an e-mail address and a password, for signing in and for changing the password. */
import type { DataSource } from 'typeorm';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { StrataError } from '../../../shared/errors.ts';
import { addressOf } from '../accounts/rules/accounts.ts';
import { networkOf, throttleKey } from '../throttling/rules/throttle.ts';
import type { UserRow } from '../schema.ts';
import { anonymousEvent } from '../stores/audit-events.ts';
import type { DeferredEvents } from '../stores/deferred-events.ts';
import { findUserByAddress } from '../accounts/stores/users.ts';
import type { NetworkThrottle } from '../throttling/network-throttle.ts';
import type { PasswordHashing } from './password-hashing.ts';
import type { Throttle } from '../throttling/throttle.ts';

/**
 * Gives the account; throws `auth_invalid_credentials`, or `rate_limited` after too many failures.
 */
export type CheckPassword = (email: string, password: string, request: Request) => Promise<UserRow>;

export interface CheckPasswordDependencies {
  readonly hashing: PasswordHashing;
  readonly throttle: Throttle;
  readonly networkThrottle: NetworkThrottle;
  readonly deferredEvents: DeferredEvents;
}

/**
 * An unknown address, a wrong password and a disabled account are alike in answer, time and count.
 * The audit has the failures of accounts that exist, and one event for each wait of a network; an
 * unknown address costs no row, since anyone can make up any number of them.
 */
export function createCheckPassword(
  db: DataSource,
  { hashing, throttle, networkThrottle, deferredEvents }: CheckPasswordDependencies,
): CheckPassword {
  async function recordFailure(
    address: string,
    user: UserRow | null,
    network: string,
    request: Request,
  ): Promise<void> {
    const waitMs = await networkThrottle.recordFailure(network, request.log);
    if (user) {
      const event = anonymousEvent('auth.login_failed', user.id, { email: address });
      deferredEvents.record(event, request);
    }
    if (waitMs > 0) {
      const payload = { network, wait_seconds: Math.ceil(waitMs / 1000) };
      deferredEvents.record(anonymousEvent('auth.network_throttled', null, payload), request);
    }
  }

  async function attempt(
    address: string,
    password: string,
    network: string,
    request: Request,
  ): Promise<UserRow> {
    const user = await findUserByAddress(db.manager, address);
    const usable = user?.status === 'active' ? user : null;
    const stored = usable?.password_hash ?? null;
    const guard = networkThrottle.guard(network);
    const matches = await hashing.verify(stored, password, network, guard);
    if (usable && matches) return usable;
    await recordFailure(address, user, network, request);
    throw new StrataError('auth_invalid_credentials');
  }

  return async (email, password, request) => {
    const address = addressOf(email);
    const { ip } = request.client;
    const network = networkOf(ip);
    await networkThrottle.admit(network, request.log);
    const key = throttleKey('password', address, ip);
    return throttle.attempt(key, request.log, () => attempt(address, password, network, request));
  };
}
