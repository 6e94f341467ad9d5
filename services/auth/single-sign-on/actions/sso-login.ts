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
import { createHash } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../../shared/contract-runtime/request.ts';
import { commitChange } from '../../../../shared/commits/commit.ts';
import { authScope } from '../../../../shared/contracts/revision-scopes.ts';
import { codeOf, invalid, statusOf, StrataError } from '../../../../shared/errors.ts';
import type { Settings } from '../../../../shared/settings/settings.ts';
import type { ShortLivedState } from '../../../../shared/concurrency/short-lived-state.ts';
import type {
  AuthorizationRequest,
  AuthorizationResponse,
  IdentityProviders,
} from '../oidc/identity-provider.ts';
import type { AccountNotices } from '../../accounts/mail/account-notices.ts';
import { addressOf } from '../../accounts/rules/accounts.ts';
import { ownSessionOf, type OwnSession } from '../../sessions/rules/own-session.ts';
import type { Membership } from '../../accounts/rules/memberships.ts';
import {
  judgeSsoAccount,
  provesAddress,
  type SsoClaims,
  type SsoJudgement,
} from '../rules/sso-account.ts';
import {
  SsoIdentityEntity,
  type SessionRow,
  type SsoProviderRow,
  type UserRow,
} from '../../schema.ts';
import type { SignIn, TokenResponse } from '../../sessions/sign-in.ts';
import { anonymousEvent, identityEvent, recordEvent } from '../../stores/audit-events.ts';
import { proveAddress } from '../../accounts/stores/proof.ts';
import { requireRoom } from '../../stores/room.ts';
import {
  requireGoodFor,
  requireOpenSession,
  requireStrongest,
} from '../../sessions/stores/sessions.ts';
import { clientOf, findEnabledProvider, findProvidersOfAddress } from '../stores/sso-providers.ts';
import {
  findUser,
  findUserByAddress,
  insertUser,
  lockForChange,
} from '../../accounts/stores/users.ts';

/** A sign-in that the provider has not answered yet. */
interface PendingSignIn extends AuthorizationRequest {
  readonly provider_id: string;
  readonly issuer: string;
  readonly client_id: string;
  readonly client_challenge: string;
  /**
   * The account that asked to be linked, and the session that must still be open at the end; null
   * where the sign-in itself says whose it is.
   */
  readonly linking: OwnSession | null;
}

/** What a client asks for when it begins. */
interface Beginning {
  readonly redirectUri: string;
  readonly clientChallenge: string;
  readonly linking: OwnSession | null;
  readonly loginHint?: string | undefined;
  /** In seconds: how long ago the person may have signed in at the provider. */
  readonly maxAge?: number | undefined;
}

/**
 * The account that a person may enter; `link` where this is the first time through this provider.
 */
type Admitted = Extract<SsoJudgement<UserRow>, { kind: 'known' | 'link' }>;

/** Of a provider that does not say when its person signed in: recent is nothing then. */
const unknownTime = new Date(0);

const pendingSeconds = 600;
const pendingKey = (state: string): string => `sso_${state}`;

/** The S256 challenge of a verifier (RFC 7636, 4.2), here between the client and Strata. */
const challengeOf = (verifier: string): string =>
  createHash('sha256').update(verifier).digest('base64url');

export function ssoLoginActions(
  db: DataSource,
  settings: () => Settings,
  shortLived: ShortLivedState,
  identityProviders: IdentityProviders,
  signIn: SignIn,
  notices: AccountNotices,
) {
  /** By id, or the oldest that serves the address; null where there is none. */
  async function providerFor(
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

  async function beginAt(
    provider: SsoProviderRow | null,
    { redirectUri, clientChallenge, linking, loginHint, maxAge }: Beginning,
    request: Request,
  ) {
    if (!provider) throw new StrataError('auth_sso_provider_not_found');
    if (!provider.redirect_uris.includes(redirectUri)) {
      const message = "is not one of the provider's redirect_uris";
      throw invalid([{ path: '/redirect_uri', message }]);
    }
    const client = clientOf(provider, settings());
    const begun = await identityProviders
      .begin(client, redirectUri, { loginHint, maxAge })
      .catch((error: unknown) => {
        logReason(error, provider.id, request);
        throw error;
      });
    const pending: PendingSignIn = {
      ...begun.kept,
      provider_id: provider.id,
      issuer: provider.issuer,
      client_id: provider.client_id,
      client_challenge: clientChallenge,
      linking,
    };
    await shortLived.put(pendingKey(begun.state), pending, pendingSeconds);
    return { authorization_url: begun.url, state: begun.state, expires_in: pendingSeconds };
  }

  /**
   * Taken before the verifier is compared, so that a state can be tried once and not again with
   * another verifier. A state that nobody was given is not audited: anyone can make up any number
   * of them.
   */
  async function takePending(state: string): Promise<PendingSignIn> {
    const pending = await shortLived.take<PendingSignIn>(pendingKey(state));
    if (!pending) throw new StrataError('auth_sso_state_invalid');
    return pending;
  }

  function requireOwnClient(pending: PendingSignIn, clientVerifier: string): void {
    if (pending.client_challenge !== challengeOf(clientVerifier))
      throw new StrataError('auth_sso_state_invalid');
  }

  async function requireUnchangedProvider(pending: PendingSignIn): Promise<SsoProviderRow> {
    const provider = await findEnabledProvider(db.manager, pending.provider_id);
    if (!provider) throw new StrataError('auth_sso_provider_not_found');
    const isUnchanged =
      provider.issuer === pending.issuer && provider.client_id === pending.client_id;
    if (isUnchanged) return provider;
    throw new StrataError(
      'auth_sso_state_invalid',
      'The provider was changed meanwhile. Start again.',
    );
  }

  async function judge(
    claims: SsoClaims,
    provider: SsoProviderRow,
    linkingUserId: string | null,
  ): Promise<SsoJudgement<UserRow>> {
    const { issuer, subject, email } = claims;
    const identity = await db.manager.findOneBy(SsoIdentityEntity, { issuer, subject });
    return judgeSsoAccount(claims, provider, {
      linked: identity && (await findUser(db.manager, identity.user_id)),
      linking: linkingUserId === null ? null : await findUser(db.manager, linkingUserId),
      addressed: email === null ? null : await findUserByAddress(db.manager, addressOf(email)),
    });
  }

  /** Makes the account that the provider vouches for; does nothing where one appeared meanwhile. */
  async function provision(
    email: string,
    name: string | null,
    provider: SsoProviderRow,
    request: Request,
  ): Promise<void> {
    const address = addressOf(email);
    await db.transaction(async (manager) => {
      const id = await insertUser(manager, {
        email: address,
        email_verified: true,
        display_name: name,
        password_hash: null,
      });
      if (id === null) return;
      const payload = { email: address, provider_id: provider.id };
      const event = identityEvent('auth.user_provisioned', id, payload);
      await recordEvent(manager, event, request);
    });
  }

  async function requireActiveTenant(tenantId: string, request: Request): Promise<void> {
    const tenant = await request.call('tenant-config.tenants.get', { tenant_id: tenantId });
    if (tenant.status === 'disabled') throw new StrataError('auth_tenant_disabled');
  }

  async function accountFor(
    claims: SsoClaims,
    provider: SsoProviderRow,
    linkingUserId: string | null,
    request: Request,
  ): Promise<Admitted> {
    const first = await judge(claims, provider, linkingUserId);
    if (first.kind === 'refuse') throw new StrataError(first.code);
    if (first.kind !== 'provision') return first;

    if (provider.tenant_id !== null) await requireActiveTenant(provider.tenant_id, request);
    if (claims.email !== null) await provision(claims.email, claims.name, provider, request);
    // Still to be provisioned where the provider tells no address. Judged again otherwise, since
    // the account of this address may be one that appeared meanwhile, by other means and
    // unverified.
    const second = await judge(claims, provider, linkingUserId);
    if (second.kind === 'refuse') throw new StrataError(second.code);
    if (second.kind === 'provision') throw new StrataError('auth_sso_account_not_provisioned');
    return second;
  }

  /**
   * Notes the first proof of the account's address, where this sign-in is one; true where it was.
   */
  async function prove(
    claims: SsoClaims,
    provider: SsoProviderRow,
    account: UserRow,
    request: Request,
  ): Promise<boolean> {
    if (account.email_verified || !provesAddress(claims, provider, account)) return false;
    await commitChange(db, request, authScope, async (manager) => {
      const user = await lockForChange(manager, account.id);
      if (!user) throw new StrataError('auth_sso_account_not_provisioned');
      return { result: undefined, ...(await proveAddress(manager, user, 'sso')) };
    });
    return true;
  }

  /** Somebody whose address the tenant's own provider vouches for needs no mail to accept. */
  async function acceptInvitation(
    tenantId: string,
    userId: string,
    request: Request,
  ): Promise<void> {
    const invitations = await request.call('tenant-config.members.invitations', {
      user_id: userId,
    });
    if (!invitations.some((invitation) => invitation.tenant_id === tenantId)) return;
    await request.call('tenant-config.members.accept', { tenant_id: tenantId, user_id: userId });
  }

  /**
   * Membership is given with the first sign-in only, so that a member who is removed stays removed.
   */
  async function membershipFor(
    { kind, user }: Admitted,
    claims: SsoClaims,
    provider: SsoProviderRow,
    request: Request,
  ): Promise<Membership | null> {
    const { tenant_id: tenantId, jit_enabled: provisions, default_roles: roles } = provider;
    const isFirstTime = kind === 'link';
    if (tenantId !== null && provesAddress(claims, provider, user))
      await acceptInvitation(tenantId, user.id, request);
    // Whoever is a member already, or is still invited, stays as they are.
    if (tenantId !== null && isFirstTime && provisions)
      await request.call('tenant-config.members.provision', {
        tenant_id: tenantId,
        user_id: user.id,
        body: { roles },
      });
    return signIn.membershipFor(user, tenantId ?? undefined, request.call);
  }

  const isLinked = (
    manager: EntityManager,
    { issuer, subject }: Pick<SsoClaims, 'issuer' | 'subject'>,
    userId: string,
  ): Promise<boolean> => manager.existsBy(SsoIdentityEntity, { issuer, subject, user_id: userId });

  /**
   * Links the identity with the account; false where it is already. Throws `conflict` where it is
   * linked with another by now.
   */
  async function linkIdentity(
    manager: EntityManager,
    { issuer, subject }: SsoClaims,
    userId: string,
    provider: SsoProviderRow,
    request: Request,
  ): Promise<boolean> {
    const inserted = await manager.query<unknown[]>(
      'INSERT INTO auth.sso_identities (issuer, subject, user_id, created_at) VALUES ($1, $2, $3, now()) ON CONFLICT DO NOTHING RETURNING user_id',
      [issuer, subject, userId],
    );
    if (inserted.length > 0) {
      const room = {
        most: settings().provider_links_per_person,
        what: 'links to identity providers',
        setting: 'PROVIDER_LINKS_PER_PERSON',
        advice: 'Sign in with one of those.',
      };
      await requireRoom(manager, userId, room, async () => {
        const links = await manager.countBy(SsoIdentityEntity, { user_id: userId });
        return links - inserted.length;
      });
      const payload = { provider_id: provider.id, issuer, subject };
      const event = identityEvent('auth.sso_linked', userId, payload);
      await recordEvent(manager, event, request);
      return true;
    }
    const isOwn = await isLinked(manager, { issuer, subject }, userId);
    if (!isOwn)
      throw new StrataError('conflict', 'The identity was linked with another account meanwhile.');
    return false;
  }

  async function finish(
    pending: PendingSignIn,
    callback: AuthorizationResponse,
    request: Request,
  ): Promise<TokenResponse> {
    const provider = await requireUnchangedProvider(pending);
    const client = clientOf(provider, settings());
    const claims = await identityProviders.redeem(client, pending, callback);
    const linkingUserId = pending.linking?.user_id ?? null;
    const admitted = await accountFor(claims, provider, linkingUserId, request);
    const isFirstProof = await prove(claims, provider, admitted.user, request);
    const membership = await membershipFor(admitted, claims, provider, request);
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
          // The first proof has just ended the session that asked, with everything else that was
          // there.
          if (pending.linking && !isFirstProof) {
            const { session } = await requireOpenSession(manager, pending.linking);
            await requireLinkable(manager, session, provider);
          }
          // A link that was there a moment ago and is gone was ended by somebody's first proof.
          if (admitted.kind === 'known' && !isFirstProof) return isLinked(manager, claims, user.id);
          isNewLink = await linkIdentity(manager, claims, user.id, provider, request);
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
      const provider = await providerFor(body.provider_id, body.email);
      const beginning = {
        redirectUri: body.redirect_uri,
        clientChallenge: body.client_challenge,
        linking: null,
        loginHint: body.email,
        maxAge: body.max_age,
      };
      return beginAt(provider, beginning, request);
    },

    async 'auth.sso.link'({ body }, request) {
      const provider = await findEnabledProvider(db.manager, body.provider_id);
      const own = ownSessionOf(request.caller);
      if (provider)
        await db.transaction(async (manager) => {
          const { session } = await requireOpenSession(manager, own, lockForChange);
          await requireLinkable(manager, session, provider);
        });
      const beginning = {
        redirectUri: body.redirect_uri,
        clientChallenge: body.client_challenge,
        linking: own,
      };
      return beginAt(provider, beginning, request);
    },

    async 'auth.login.sso'({ body: { client_verifier: clientVerifier, ...response } }, request) {
      const pending = await takePending(response.state);
      return auditingRefusals(pending.provider_id, request, async () => {
        requireOwnClient(pending, clientVerifier);
        return finish(pending, response, request);
      });
    },
  } satisfies Handlers;
}

/**
 * Throws where this session may not make the account enterable through the provider: by a password
 * alone where there is something stronger, or past the tenant that the session is good for.
 */
async function requireLinkable(
  manager: EntityManager,
  session: SessionRow,
  provider: SsoProviderRow,
): Promise<void> {
  requireGoodFor(session.confined_to, provider.tenant_id);
  await requireStrongest(manager, session);
}

/** What openid-client found wrong is for the log; a client learns the code only. */
function logReason(error: unknown, providerId: string, { log }: Request): void {
  const cause = error instanceof Error ? error.cause : undefined;
  if (!(cause instanceof Error)) return;
  log.warn(
    { provider_id: providerId, code: codeOf(error), reason: cause.message },
    'single sign-on was refused',
  );
}
