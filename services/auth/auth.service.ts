/** auth: accounts, sign-in with a password, a passkey or through an identity provider, sessions and their tokens, API keys. */
import type { ServiceSchema } from 'moleculer';
import type { DataSource } from 'typeorm';
import { serviceOf } from '../../shared/cluster/service.ts';
import type { Mailer } from '../../shared/mail/mailer.ts';
import { createGuard } from '../../shared/outgoing/guard.ts';
import { createGuardedFetch } from '../../shared/outgoing/guarded-fetch.ts';
import { createHttpClient } from '../../shared/outgoing/http-client.ts';
import type { Settings } from '../../shared/settings.ts';
import type { ShortLived } from '../../shared/short-lived-state.ts';
import { accountActions, ensureFirstAdmin } from './actions/accounts.ts';
import { apiKeyActions } from './actions/api-keys.ts';
import { passkeyActions } from './actions/passkeys.ts';
import { passwordActions } from './actions/passwords.ts';
import { sessionActions } from './actions/sessions.ts';
import { ssoLoginActions } from './actions/sso-login.ts';
import { ssoProviderActions } from './actions/sso-providers.ts';
import { userActions } from './actions/users.ts';
import { createCheckPassword } from './credentials.ts';
import { createOidc } from './oidc.ts';
import { withFailureCodes } from './rules/failure-codes.ts';
import { createPasswords } from './rules/passwords.ts';
import { createSendSoon } from './send-soon.ts';
import { createSignIn } from './sign-in.ts';
import { createThrottle } from './throttle.ts';

export interface AuthOptions {
  readonly db: DataSource;
  readonly settings: () => Settings;
  readonly shortLived: ShortLived;
  readonly mailer: Mailer;
  /** Told once, when an empty database got its first platform admin. */
  readonly onFirstAdmin: (admin: { email: string; password?: string }) => void;
}

export function authService({
  db,
  settings,
  shortLived,
  mailer,
  onFirstAdmin,
}: AuthOptions): ServiceSchema {
  const passwords = createPasswords();
  const signIn = createSignIn(db, settings);
  const throttle = createThrottle(shortLived.redis);
  const checkPassword = createCheckPassword(db, passwords, throttle);
  const guard = createGuard(settings);
  const oidc = createOidc(createGuardedFetch(createHttpClient(guard, settings)), settings);
  const { sendSoon, stop } = createSendSoon(mailer);
  return serviceOf(
    'auth',
    withFailureCodes({
      ...accountActions(db, settings, passwords),
      ...sessionActions(db, settings, { passwords, checkPassword, signIn }),
      ...passwordActions(db, settings, {
        passwords,
        checkPassword,
        throttle,
        shortLived,
        sendSoon,
      }),
      ...userActions(db, settings),
      ...ssoProviderActions(db, settings, guard),
      ...ssoLoginActions(db, settings, shortLived, oidc, signIn),
      ...apiKeyActions(db, settings),
      ...passkeyActions(db, settings, shortLived, signIn),
    }),
    {
      async started() {
        const admin = await ensureFirstAdmin(db, settings(), passwords);
        if (admin) onFirstAdmin(admin);
      },
      stopped: stop,
    },
  );
}
