/**
 * auth: accounts, the ways of signing in, sessions and their tokens, API keys.
 *
 * A way of signing in is an action that proves who somebody is and hands that to `signIn.complete`,
 * which makes the session:
 *
 * | Way | Proves with | Begins and ends in |
 * |---|---|---|
 * | password | `sign-in/check-password.ts` | `actions/password-login.ts` |
 * | passkey | `webauthn/` | `actions/passkey-login.ts`; `actions/passkeys.ts` adds one |
 * | identity provider | `oidc/` | `actions/sso-login.ts`; `actions/sso-providers.ts` adds one |
 *
 * A workload proves itself by a token of its platform (`workload/`), which makes no session.
 *
 * `sign-in/` is what all ways share, `stores/` the rows and counters behind them, `rules/` what is
 * decided without either.
 */
import type { ServiceSchema } from 'moleculer';
import type { Registry } from 'prom-client';
import type { StartWork } from '../../shared/node/readiness.ts';
import { removeEndedShares } from '../../shared/commits/shares.ts';
import {
  serviceOf,
  type ServiceOptions,
  type Started,
} from '../../shared/contract-runtime/service.ts';
import { erasesTenants } from '../../shared/node/tenant-erasure.ts';
import type { Mailer } from '../../shared/mail/mailer.ts';
import { createGuard } from '../../shared/outgoing/guard.ts';
import { createGuardedFetch } from '../../shared/outgoing/guarded-fetch.ts';
import { createHttpClient } from '../../shared/outgoing/http-client.ts';
import { startSweeping, type Sweeper } from '../../shared/database/sweeper.ts';
import { showFigure } from '../../shared/telemetry/figures.ts';
import type { ShortLivedState } from '../../shared/concurrency/short-lived-state.ts';
import { apiKeyActions } from './api-keys/actions/api-keys.ts';
import { erasureActions } from './actions/erasure.ts';
import { invitationActions } from './invitations/actions/invitations.ts';
import { passkeyLoginActions } from './passkeys/actions/passkey-login.ts';
import { passwordKeyActions } from './api-keys/actions/password-keys.ts';
import { passkeyActions } from './passkeys/actions/passkeys.ts';
import { passwordLoginActions } from './passwords/actions/password-login.ts';
import { passwordActions } from './passwords/actions/passwords.ts';
import { changeSetNoticeActions } from './accounts/actions/change-set-notices.ts';
import { powerNoticeActions } from './accounts/actions/power-notices.ts';
import { refreshActions } from './sessions/actions/refresh.ts';
import { serviceAccountKeyActions } from './api-keys/actions/service-account-keys.ts';
import { sessionActions } from './sessions/actions/sessions.ts';
import { ssoLoginActions } from './single-sign-on/actions/sso-login.ts';
import { ssoProviderActions } from './single-sign-on/actions/sso-providers.ts';
import { finishErasure, releaseInvited, userActions } from './accounts/actions/users.ts';
import { createAccountNotices } from './accounts/mail/account-notices.ts';
import { createDeferredMail } from './mail/deferred-mail.ts';
import { createIdentityProviders } from './single-sign-on/oidc/identity-provider.ts';
import { withFailureCodes } from './rules/failure-codes.ts';
import { createCheckPassword } from './passwords/check-password.ts';
import { announceFirstAdmin, type FirstAdmin } from './accounts/first-admin.ts';
import { createPasswordHashing } from './passwords/password-hashing.ts';
import { createNetworkThrottle } from './throttling/network-throttle.ts';
import { withNetworkLimits } from './throttling/network-limits.ts';
import { createSignIn } from './sessions/sign-in.ts';
import { createThrottle } from './throttling/throttle.ts';
import { createDeferredEvents } from './stores/deferred-events.ts';
import {
  finishErasures,
  removeEndedSessions,
  removeExpiredInvitations,
} from './stores/retention.ts';
import { removeTakenValues, takenOnce } from './stores/taken-once.ts';
import {
  exchangeActions,
  exchangeResults,
  type ExchangeResult,
} from './workload/actions/exchange.ts';
import { workloadIssuerActions } from './workload/actions/issuers.ts';
import { trustActions } from './workload/actions/trust.ts';
import { createIssuerKeys } from './workload/oidc/issuer-keys.ts';
import { createChallenges } from './passkeys/webauthn/challenges.ts';
import { createRelyingParty } from './passkeys/webauthn/relying-party.ts';

export interface AuthOptions extends ServiceOptions {
  readonly shortLived: ShortLivedState;
  readonly mailer: Mailer;
  readonly onceServing: (name: StartWork, work: () => Promise<void>) => void;
  /**
   * Called where an empty database got its first platform admin. Shows the password before it
   * returns.
   */
  readonly onFirstAdmin: (admin: FirstAdmin) => void;
}

export function authService({
  db,
  settings,
  shortLived: unsure,
  mailer,
  log,
  metrics,
  onceServing,
  onFirstAdmin,
}: AuthOptions): ServiceSchema {
  const shortLived = takenOnce(unsure, db);
  const signIn = createSignIn(db, settings);

  const hashing = createPasswordHashing();
  const throttle = createThrottle(shortLived.redis);
  const networkThrottle = createNetworkThrottle(shortLived.redis);
  const deferredEvents = createDeferredEvents(db);
  const checkPassword = createCheckPassword(db, {
    hashing,
    throttle,
    networkThrottle,
    deferredEvents,
  });
  const deferredMail = createDeferredMail(mailer);
  const notices = createAccountNotices(settings, deferredMail);

  const relyingParty = createRelyingParty(settings);
  const challenges = createChallenges(shortLived);

  const guard = createGuard(settings);
  const guardedFetch = createGuardedFetch(createHttpClient(guard, settings));
  const identityProviders = createIdentityProviders(guardedFetch, settings);

  const issuerKeys = createIssuerKeys(guardedFetch, settings);
  const exchanges = { issued: 0, refused: 0, failed: 0 };
  const count = (result: ExchangeResult): void => {
    exchanges[result] += 1;
  };

  const actions = {
    ...passwordLoginActions(db, hashing, checkPassword, signIn),
    ...passkeyLoginActions(db, relyingParty, challenges, signIn, deferredEvents),
    ...ssoLoginActions(db, settings, shortLived, identityProviders, signIn, notices),
    ...refreshActions(db, settings, signIn),
    ...sessionActions(db, settings, signIn, notices),
    ...passwordActions(db, settings, {
      hashing,
      checkPassword,
      throttle,
      shortLived,
      deferredMail,
      deferredEvents,
      notices,
    }),
    ...passkeyActions(db, settings, relyingParty, challenges, notices),
    ...ssoProviderActions(db, settings, guard),
    ...apiKeyActions(db, settings, notices),
    ...serviceAccountKeyActions(db, settings),
    ...passwordKeyActions(db, notices),
    ...trustActions(db, settings),
    ...workloadIssuerActions(db, guard),
    ...exchangeActions(db, settings, { issuerKeys, deferredEvents, count }),
    ...userActions(db, settings, hashing, notices),
    ...powerNoticeActions(db, settings, deferredMail),
    ...changeSetNoticeActions(db, settings, deferredMail),
    ...erasureActions(db),
    ...invitationActions(db, settings, { hashing, throttle, deferredMail, signIn }),
  };
  onceServing('first_admin', () => announceFirstAdmin(db, settings(), hashing, onFirstAdmin));
  const handlers = withFailureCodes(withNetworkLimits(actions, settings, networkThrottle));
  let sweeping: Sweeper | undefined;
  const lifecycle = {
    async started({ call }: Started): Promise<void> {
      showExchanges(metrics, exchanges);
      const sweeps = {
        sessions: removeEndedSessions(settings),
        invitations: removeExpiredInvitations(settings, (invited) =>
          releaseInvited(db, call, invited, settings().session_retention_days),
        ),
        shares: removeEndedShares,
        taken: removeTakenValues,
        accounts: finishErasures((id) => finishErasure(db, call, id)),
      };
      sweeping = startSweeping({ db, log, name: 'auth', sweeps });
    },
    async stopped(): Promise<void> {
      await sweeping?.stop();
      await Promise.all([deferredMail.stop(), deferredEvents.stop()]);
    },
  };
  const events = erasesTenants({
    service: 'auth',
    log,
    erase: (ask, tenant_id) => ask('auth.tenants.erase', { tenant_id }),
  });
  return { ...serviceOf('auth', handlers, lifecycle), events };
}

/** How exchanges of tokens end, for Prometheus. */
function showExchanges(metrics: Registry, counts: Readonly<Record<ExchangeResult, number>>): void {
  showFigure(metrics, {
    name: 'strata_workload_exchanges_total',
    help: 'Tokens of workloads that this node was asked to exchange, by result',
    type: 'counter',
    labelNames: ['result'],
    read: () => exchangeResults.map((result) => ({ labels: { result }, value: counts[result] })),
  });
}
