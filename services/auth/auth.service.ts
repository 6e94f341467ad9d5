/** auth: accounts, sign-in with a password, sessions and their tokens. */
import type { ServiceSchema } from 'moleculer';
import type { DataSource } from 'typeorm';
import { serviceOf } from '../../shared/broker/service.ts';
import type { Settings } from '../../shared/settings.ts';
import type { ShortLived } from '../../shared/short-lived.ts';
import { accountActions, ensureFirstAdmin } from './actions/accounts.ts';
import { sessionActions } from './actions/sessions.ts';
import { userActions } from './actions/users.ts';
import { createCheckPassword } from './credentials.ts';
import { createPasswords } from './rules/passwords.ts';
import { createSignIn } from './sign-in.ts';
import { createThrottle } from './throttle.ts';

export interface AuthOptions {
  readonly db: DataSource;
  readonly settings: () => Settings;
  readonly shortLived: ShortLived;
  /** Told once, when an empty database got its first platform admin. */
  readonly onFirstAdmin: (admin: { email: string; password?: string }) => void;
}

export function authService({ db, settings, shortLived, onFirstAdmin }: AuthOptions): ServiceSchema {
  const passwords = createPasswords();
  const signIn = createSignIn(db, settings);
  const throttle = createThrottle(shortLived.redis);
  const checkPassword = createCheckPassword(db, passwords, throttle);
  return serviceOf('auth', {
    ...accountActions(db, settings, passwords),
    ...sessionActions(db, settings, { passwords, checkPassword, signIn }),
    ...userActions(db, settings),
  }, {
    async started() {
      const admin = await ensureFirstAdmin(db, settings(), passwords);
      if (admin) onFirstAdmin(admin);
    },
  });
}
