/** auth: accounts, sign-in with a password, sessions and their tokens. */
import type { ServiceSchema } from 'moleculer';
import type { DataSource } from 'typeorm';
import { serviceOf } from '../../shared/broker/service.ts';
import type { Settings } from '../../shared/settings.ts';
import type { ShortLived } from '../../shared/short-lived.ts';
import { accountActions, ensureFirstAdmin } from './actions/accounts.ts';
import { sessionActions } from './actions/sessions.ts';
import { createPasswords } from './rules/passwords.ts';
import { createSignIn } from './sign-in.ts';

export interface AuthOptions {
  readonly db: DataSource;
  readonly settings: () => Settings;
  readonly shortLived: ShortLived;
  /** Told once, when an empty database got its first platform admin. */
  readonly onFirstAdmin: (admin: { email: string; password?: string }) => void;
}

export function authService({ db, settings, onFirstAdmin }: AuthOptions): ServiceSchema {
  const passwords = createPasswords();
  const signIn = createSignIn(db, settings);
  return serviceOf('auth', {
    ...accountActions(db, settings, passwords),
    ...sessionActions(db, settings, passwords, signIn),
  }, {
    async started() {
      const admin = await ensureFirstAdmin(db, settings(), passwords);
      if (admin) onFirstAdmin(admin);
    },
  });
}
