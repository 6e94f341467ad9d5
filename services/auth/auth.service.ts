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
import type { StartWork } from '../../shared/node/readiness.ts';
import { removeEndedShares } from '../../shared/commits/shares.ts';
import {
  serviceOf,
  type ServiceOptions,
  type Started,
} from '../../shared/contract-runtime/service.ts';
import { erasesTenants } from '../../shared/node/tenant-erasure.ts';
import { startSweeping, type Sweeper } from '../../shared/database/sweeper.ts';
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
import { withFailureCodes } from './rules/failure-codes.ts';
import { announceFirstAdmin, type FirstAdmin } from './accounts/first-admin.ts';
import { withNetworkLimits } from './throttling/network-limits.ts';
import {
  finishErasures,
  removeEndedSessions,
  removeExpiredInvitations,
} from './stores/retention.ts';
import { removeTakenValues } from './stores/taken-once.ts';
import { createAuthParts, type AuthNeeds } from './parts.ts';
import { exchangeActions } from './workload/actions/exchange.ts';
import { workloadIssuerActions } from './workload/actions/issuers.ts';
import { trustActions } from './workload/actions/trust.ts';

export interface AuthOptions extends ServiceOptions, AuthNeeds {
  readonly onceServing: (name: StartWork, work: () => Promise<void>) => void;
  /**
   * Called where an empty database got its first platform admin. Shows the password before it
   * returns.
   */
  readonly onFirstAdmin: (admin: FirstAdmin) => void;
}

export function authService(options: AuthOptions): ServiceSchema {
  const { db, settings, log, onceServing, onFirstAdmin } = options;
  const parts = createAuthParts(options);
  const { hashing, networkThrottle, deferredMail, deferredEvents } = parts;
  const actions = {
    ...passwordLoginActions(parts),
    ...passkeyLoginActions(parts),
    ...ssoLoginActions(parts),
    ...refreshActions(parts),
    ...sessionActions(parts),
    ...passwordActions(parts),
    ...passkeyActions(parts),
    ...ssoProviderActions(parts),
    ...apiKeyActions(parts),
    ...serviceAccountKeyActions(parts),
    ...passwordKeyActions(parts),
    ...trustActions(parts),
    ...workloadIssuerActions(parts),
    ...exchangeActions(parts),
    ...userActions(parts),
    ...powerNoticeActions(parts),
    ...changeSetNoticeActions(parts),
    ...erasureActions(parts),
    ...invitationActions(parts),
  };
  onceServing('first_admin', () => announceFirstAdmin(db, settings(), hashing, onFirstAdmin));
  const handlers = withFailureCodes(withNetworkLimits(actions, settings, networkThrottle));
  let sweeping: Sweeper | undefined;
  const lifecycle = {
    async started({ call }: Started): Promise<void> {
      const sweeps = {
        sessions: removeEndedSessions(settings),
        shares: removeEndedShares,
        taken: removeTakenValues,
      };
      const asking = {
        invitations: removeExpiredInvitations(settings, (invited) =>
          releaseInvited(db, call, invited, settings().session_retention_days),
        ),
        accounts: finishErasures((id) => finishErasure(db, call, id)),
      };
      sweeping = startSweeping({ db, log, name: 'auth', sweeps, asking });
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
