/**
 * Signing in through an identity provider, and linking one with an account. Both begin here, go
 * through the browser and the provider, and end with `auth.login.sso`:
 *
 * | Step | Where | Guards against |
 * |---|---|---|
 * | `beginAt` keeps a pending sign-in under its state | Redis, 10 minutes | a response that nobody asked for |
 * | `takePending` takes it, once, from the client that began it | | a response used twice, or by whoever intercepted it |
 * | `unchangedProvider` | database | a code sent to an issuer that it is not from |
 * | `redeem` exchanges the code for claims | provider | forged claims |
 * | `accountFor` finds, links or makes the account | database | an account taken over by claiming its address |
 * | `prove` ends what was there before an address was proved | database | credentials that somebody else had planted |
 * | `membershipFor` adds it to the provider's tenant, the first time | tenant-config | a removed member who comes back |
 * | `linkIdentity` while the session is made | database | one identity linked with two accounts |
 */
import type { DataSource } from 'typeorm';
import type { Handlers, Request } from '../../../../shared/contract-runtime/request.ts';
import { codeOf, invalid, statusOf, StrataError } from '../../../../shared/errors.ts';
import type { AuthParts } from '../../parts.ts';
import { lockForChange } from '../../accounts/stores/users.ts';
import type { SsoProviderRow } from '../../schema.ts';
import { ownSessionOf } from '../../sessions/rules/own-session.ts';
import type { TokenResponse } from '../../sessions/sign-in.ts';
import { requireOpenSession } from '../../sessions/stores/sessions.ts';
import { anonymousEvent, recordEvent } from '../../stores/audit-events.ts';
import { accountFor, membershipFor, prove } from '../account.ts';
import { isLinked, linkIdentity, requireLinkable } from '../link.ts';
import type { AuthorizationResponse } from '../oidc/identity-provider.ts';
import {
  beginAt,
  logReason,
  requireOwnClient,
  requireSameProvider,
  requireUnchangedProvider,
  takePending,
  type PendingSignIn,
} from '../pending.ts';
import {
  clientOf,
  findEnabledProvider,
  findProvidersOfAddress,
  lockEnabledProvider,
} from '../stores/sso-providers.ts';

/** Of a provider that does not say when its person signed in: recent is nothing then. */
const unknownTime = new Date(0);

/** By id, or the oldest that serves the address; null where there is none. */
async function providerFor(
  db: DataSource,
  id: string | undefined,
  email: string | undefined,
): Promise<SsoProviderRow | null> {
  if (id !== undefined && email === undefined) return findEnabledProvider(db.manager, id);
  if (id === undefined && email !== undefined) {
    const [oldest] = await findProvidersOfAddress(db.manager, email);
    return oldest ?? null;
  }
  throw invalid([{ path: '/provider_id', message: 'give either provider_id or email' }]);
}

export function ssoLoginActions(parts: AuthParts) {
  const { db, settings, shortLived, identityProviders, signIn, notices } = parts;

  async function finish(
    pending: PendingSignIn,
    callback: AuthorizationResponse,
    request: Request,
  ): Promise<TokenResponse> {
    const provider = await requireUnchangedProvider(db, pending);
    const client = clientOf(provider, settings());
    const claims = await identityProviders.redeem(client, pending, callback);
    const linkingUserId = pending.linking?.user_id ?? null;
    const admitted = await accountFor(db, claims, provider, linkingUserId, request);
    const isFirstProof = await prove(db, claims, provider, admitted.user, request);
    const membership = await membershipFor(signIn, admitted, claims, provider, request);
    let isNewLink = false;
    const response = await signIn.complete(
      {
        userId: admitted.user.id,
        authentication: {
          method: 'sso',
          at: claims.authenticated_at ?? unknownTime,
          providerId: provider.id,
          confinedTo: provider.tenant_id,
        },
        membership,
        async confirm(manager, user) {
          const current = await lockEnabledProvider(manager, provider.id);
          if (!current) throw new StrataError('auth_sso_provider_not_found');
          // Sessions through the provider as it was have been ended with that change.
          requireSameProvider(current, provider);
          // The first proof has just ended the session that asked, with everything else that was
          // there.
          if (pending.linking && !isFirstProof) {
            const { session } = await requireOpenSession(manager, pending.linking);
            await requireLinkable(manager, session, provider);
          }
          // A link that was there a moment ago and is gone was ended by somebody's first proof.
          if (admitted.kind === 'known' && !isFirstProof) return isLinked(manager, claims, user.id);
          isNewLink = await linkIdentity(manager, claims, user.id, provider, request, settings());
          return true;
        },
        refusal: 'auth_sso_account_not_provisioned',
      },
      request,
    );
    const notice = { kind: 'provider_linked', which: provider.name } as const;
    if (isNewLink) notices.send(admitted.user.email, notice, request);
    return response;
  }

  /**
   * Runs a step of the end of a sign-in. Why it is refused goes to the log and, unless Strata or
   * the provider failed, to the audit.
   */
  async function auditingRefusals<T>(
    providerId: string,
    request: Request,
    step: () => Promise<T>,
  ): Promise<T> {
    try {
      return await step();
    } catch (error) {
      const code = codeOf(error);
      logReason(error, providerId, request);
      if (statusOf(code) < 500) {
        const payload = { method: 'sso', code, provider_id: providerId };
        const event = anonymousEvent('auth.login_failed', null, payload);
        await recordEvent(db.manager, event, request);
      }
      throw error;
    }
  }

  return {
    async 'auth.login.sso.start'({ body }, request) {
      const provider = await providerFor(db, body.provider_id, body.email);
      return beginAt(parts, provider, { ...body, linking: null }, request);
    },

    async 'auth.sso.link'({ body }, request) {
      const provider = await findEnabledProvider(db.manager, body.provider_id);
      const own = ownSessionOf(request.caller);
      if (provider)
        await db.transaction(async (manager) => {
          const { session } = await requireOpenSession(manager, own, lockForChange);
          await requireLinkable(manager, session, provider);
        });
      return beginAt(parts, provider, { ...body, linking: own }, request);
    },

    async 'auth.login.sso'({ body: { client_verifier: clientVerifier, ...response } }, request) {
      const pending = await takePending(shortLived, response.state);
      return auditingRefusals(pending.provider_id, request, async () => {
        requireOwnClient(pending, clientVerifier);
        return finish(pending, response, request);
      });
    },
  } satisfies Handlers;
}
