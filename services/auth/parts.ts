/** What the actions of auth share: the ways to prove who somebody is, and what bounds guessing. */
import type { ShortLivedState } from '../../shared/concurrency/short-lived-state.ts';
import type { ServiceOptions } from '../../shared/contract-runtime/service.ts';
import type { Mailer } from '../../shared/mail/mailer.ts';
import { createGuard } from '../../shared/outgoing/guard.ts';
import { createGuardedFetch } from '../../shared/outgoing/guarded-fetch.ts';
import { createHttpClient } from '../../shared/outgoing/http-client.ts';
import { createAccountNotices } from './accounts/mail/account-notices.ts';
import { createDeferredMail } from './mail/deferred-mail.ts';
import { createChallenges } from './passkeys/webauthn/challenges.ts';
import { createRelyingParty } from './passkeys/webauthn/relying-party.ts';
import { createCheckPassword } from './passwords/check-password.ts';
import { createPasswordHashing } from './passwords/password-hashing.ts';
import { createSignIn } from './sessions/sign-in.ts';
import { createIdentityProviders } from './single-sign-on/oidc/identity-provider.ts';
import { createDeferredEvents } from './stores/deferred-events.ts';
import { takenOnce } from './stores/taken-once.ts';
import { createNetworkThrottle } from './throttling/network-throttle.ts';
import { createThrottle } from './throttling/throttle.ts';
import { createIssuerKeys } from './workload/oidc/issuer-keys.ts';

export interface AuthNeeds extends Pick<ServiceOptions, 'db' | 'settings' | 'metrics'> {
  readonly shortLived: ShortLivedState;
  readonly mailer: Mailer;
}

export type AuthParts = ReturnType<typeof createAuthParts>;

export function createAuthParts({ db, settings, metrics, mailer, ...needs }: AuthNeeds) {
  const shortLived = takenOnce(needs.shortLived, db);
  const hashing = createPasswordHashing();
  const throttle = createThrottle(shortLived.redis);
  const networkThrottle = createNetworkThrottle(shortLived.redis);
  const deferredEvents = createDeferredEvents(db);
  const deferredMail = createDeferredMail(mailer);
  const guard = createGuard(settings);
  const guardedFetch = createGuardedFetch(createHttpClient(guard, settings));
  const passwordParts = { hashing, throttle, networkThrottle, deferredEvents };
  return {
    db,
    settings,
    metrics,
    shortLived,
    ...passwordParts,
    deferredMail,
    guard,
    signIn: createSignIn(db, settings),
    checkPassword: createCheckPassword(db, passwordParts),
    notices: createAccountNotices(settings, deferredMail),
    relyingParty: createRelyingParty(settings),
    challenges: createChallenges(shortLived),
    identityProviders: createIdentityProviders(guardedFetch, settings),
    issuerKeys: createIssuerKeys(guardedFetch, settings),
  };
}
