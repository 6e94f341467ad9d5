import { createHash, randomUUID } from 'node:crypto';
import type { DataSource } from 'typeorm';
import type { Handlers, Request } from '../../../shared/cluster/request.ts';
import { errorTable } from '../../../shared/contracts/error-codes.ts';
import { codeOf, invalid, StrataError } from '../../../shared/errors.ts';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import type { Settings } from '../../../shared/settings.ts';
import type { ShortLived } from '../../../shared/short-lived-state.ts';
import type { Begun, Oidc } from '../oidc.ts';
import { judgeSsoAccount, type SsoClaims } from '../rules/sso-account.ts';
import {
  SsoIdentityEntity,
  SsoProviderEntity,
  UserEntity,
  type SsoProviderRow,
  type UserRow,
} from '../schema.ts';
import { authEvent, chooseTenant, type SignIn } from '../sign-in.ts';
import { addressOf } from './accounts.ts';
import { oidcClientOf, providersFor } from './sso-providers.ts';

/** One sign-in under way, kept under its state. */
interface UnderWay extends Begun {
  readonly provider_id: string;
  readonly issuer: string;
  readonly client_id: string;
  readonly client_challenge: string;
  /** The account that asked to be linked; null where the sign-in itself says whose it is. */
  readonly asking: string | null;
}
type Begin = Pick<UnderWay, 'client_challenge' | 'asking'> & {
  readonly redirect_uri: string;
  readonly login_hint?: string | undefined;
};

const stateSeconds = 600;
const keyOf = (state: string): string => `sso_${state}`;
/** S256 of RFC 7636. */
const challengeOf = (verifier: string): string =>
  createHash('sha256').update(verifier).digest('base64url');

export function ssoLoginActions(
  db: DataSource,
  settings: () => Settings,
  shortLived: ShortLived,
  oidc: Oidc,
  { open, answer }: SignIn,
) {
  async function begin(
    provider: SsoProviderRow | null | undefined,
    { redirect_uri: redirectUri, login_hint: hint, ...rest }: Begin,
    request: Request,
  ) {
    if (!provider) throw new StrataError('auth_sso_provider_not_found');
    if (!provider.redirect_uris.includes(redirectUri)) {
      throw invalid([
        { path: '/redirect_uri', message: "is not one of the provider's redirect_uris" },
      ]);
    }
    const { url, state, ...begun } = await oidc
      .begin(oidcClientOf(provider, settings()), redirectUri, hint)
      .catch((error: unknown) => {
        explain(request, provider.id, error);
        throw error;
      });
    const underWay: UnderWay = {
      ...begun,
      ...rest,
      provider_id: provider.id,
      issuer: provider.issuer,
      client_id: provider.client_id,
    };
    await shortLived.put(keyOf(state), underWay, stateSeconds);
    return { authorization_url: url, state, expires_in: stateSeconds };
  }

  /** The sign-in that the state stands for, once, and only for whoever began it. */
  async function takeUnderWay(state: string, verifier: string): Promise<UnderWay> {
    const found = await shortLived.take<UnderWay>(keyOf(state));
    if (!found || found.client_challenge !== challengeOf(verifier))
      throw new StrataError('auth_sso_state_invalid');
    return found;
  }

  async function providerOf({
    provider_id: id,
    issuer,
    client_id,
  }: UnderWay): Promise<SsoProviderRow> {
    const provider = await db.manager.findOneBy(SsoProviderEntity, { id, enabled: true });
    if (!provider) throw new StrataError('auth_sso_provider_not_found');
    if (provider.issuer !== issuer || provider.client_id !== client_id) {
      throw new StrataError(
        'auth_sso_state_invalid',
        'The provider was changed meanwhile. Start again.',
      );
    }
    return provider;
  }

  async function judge(claims: SsoClaims, provider: SsoProviderRow, asking: string | null) {
    const user = async (id: string | undefined): Promise<UserRow | null> =>
      id === undefined ? null : db.manager.findOneBy(UserEntity, { id });
    const identity = await db.manager.findOneBy(SsoIdentityEntity, {
      issuer: claims.issuer,
      subject: claims.subject,
    });
    return judgeSsoAccount(claims, provider, {
      linked: await user(identity?.user_id),
      asking: await user(asking ?? undefined),
      addressed:
        claims.email === null
          ? null
          : await db.manager.findOneBy(UserEntity, { email: addressOf(claims.email) }),
    });
  }

  /** An account whose address the provider vouches for; nothing where one appeared meanwhile. */
  async function provision(
    { email, name }: SsoClaims,
    provider: SsoProviderRow,
    request: Request,
  ): Promise<void> {
    const id = randomUUID();
    const address = addressOf(email!);
    await db.transaction(async (manager) => {
      const made = await manager.query<unknown[]>(
        `INSERT INTO auth.users (id, email, email_verified, display_name, password_hash, status, created_at)
         VALUES ($1, $2, true, $3, NULL, 'active', now()) ON CONFLICT (email) DO NOTHING RETURNING id`,
        [id, address, name],
      );
      if (made.length === 0) return;
      const payload = { email: address, provider_id: provider.id };
      await recordEvents(manager, [
        auditFacts(authEvent('auth.user_provisioned', id, provider.tenant_id, payload), request),
      ]);
    });
  }

  async function accountFor(
    claims: SsoClaims,
    provider: SsoProviderRow,
    asking: string | null,
    request: Request,
  ) {
    let judgement = await judge(claims, provider, asking);
    if (judgement.kind === 'provision') {
      const { status } = await request.call('tenant-config.tenants.get', {
        tenant_id: provider.tenant_id!,
      });
      if (status === 'disabled') throw new StrataError('auth_tenant_disabled');
      await provision(claims, provider, request);
      judgement = await judge(claims, provider, asking);
    }
    if (judgement.kind === 'refuse') throw new StrataError(judgement.code);
    if (judgement.kind === 'provision') throw new StrataError('auth_sso_account_not_provisioned');
    return judgement;
  }

  /** Membership is given with the first sign-in only, so that a member who is removed stays removed. */
  async function membershipOf(
    user: UserRow,
    first: boolean,
    provider: SsoProviderRow,
    request: Request,
  ) {
    const { tenant_id: tenant, jit_enabled: jit, default_roles: roles } = provider;
    const memberships = () => request.call('tenant-config.members.of', { user_id: user.id });
    let found = await memberships();
    if (first && jit && tenant !== null && !found.some(({ tenant_id: id }) => id === tenant)) {
      await request.call('tenant-config.members.provision', {
        tenant_id: tenant,
        user_id: user.id,
        body: { roles: roles as 'viewer'[] },
      });
      found = await memberships();
    }
    return chooseTenant(found, tenant ?? undefined);
  }

  async function signIn(
    underWay: UnderWay,
    { code, state, iss }: { code: string; state: string; iss?: string | undefined },
    request: Request,
  ) {
    const provider = await providerOf(underWay);
    const claims = await oidc.redeem(oidcClientOf(provider, settings()), underWay, {
      code,
      state,
      iss,
    });
    const { kind, user } = await accountFor(claims, provider, underWay.asking, request);
    const tenant = await membershipOf(user, kind === 'link', provider, request);
    const { session, refresh } = await db.transaction(async (manager) => {
      // Locked until the session is there: whoever disables the account afterwards ends this session too.
      const current = await manager.findOne(UserEntity, {
        where: { id: user.id },
        lock: { mode: 'pessimistic_read' },
      });
      if (current?.status !== 'active') throw new StrataError('auth_sso_account_not_provisioned');
      const linked = await manager.query<unknown[]>(
        'INSERT INTO auth.sso_identities (issuer, subject, user_id, created_at) VALUES ($1, $2, $3, now()) ON CONFLICT DO NOTHING RETURNING user_id',
        [claims.issuer, claims.subject, user.id],
      );
      if (linked.length > 0) {
        const payload = {
          provider_id: provider.id,
          issuer: claims.issuer,
          subject: claims.subject,
        };
        await recordEvents(manager, [
          auditFacts(authEvent('auth.sso_linked', user.id, provider.tenant_id, payload), request),
        ]);
      } else if (
        !(await manager.existsBy(SsoIdentityEntity, {
          issuer: claims.issuer,
          subject: claims.subject,
          user_id: user.id,
        }))
      ) {
        throw new StrataError(
          'conflict',
          'The identity was linked with another account meanwhile.',
        );
      }
      return open(manager, current, tenant, request, 'sso');
    });
    return answer(user, session, refresh, request.call);
  }

  return {
    async 'auth.login.sso.start'(
      { body: { provider_id: id, email, redirect_uri, client_challenge } },
      request,
    ) {
      if ((id === undefined) === (email === undefined))
        throw invalid([{ path: '/provider_id', message: 'give either provider_id or email' }]);
      const provider =
        id === undefined
          ? (await providersFor(db, email!))[0]
          : await db.manager.findOneBy(SsoProviderEntity, { id, enabled: true });
      return begin(
        provider,
        { redirect_uri, client_challenge, asking: null, login_hint: email },
        request,
      );
    },

    async 'auth.sso.link'({ body: { provider_id: id, redirect_uri, client_challenge } }, request) {
      const provider = await db.manager.findOneBy(SsoProviderEntity, { id, enabled: true });
      return begin(
        provider,
        { redirect_uri, client_challenge, asking: request.caller.id },
        request,
      );
    },

    async 'auth.login.sso'({ body: { client_verifier: verifier, ...answered } }, request) {
      let underWay: UnderWay | undefined;
      try {
        underWay = await takeUnderWay(answered.state, verifier);
        return await signIn(underWay, answered, request);
      } catch (error) {
        const code = codeOf(error);
        explain(request, underWay?.provider_id ?? null, error);
        if (errorTable[code][0] < 500) {
          await recordEvents(db.manager, [
            auditFacts(
              {
                action: 'auth.login_failed',
                tenant_id: null,
                target: null,
                payload: { method: 'sso', code, provider_id: underWay?.provider_id ?? null },
                actor: { type: 'system', id: 'auth' },
              },
              request,
            ),
          ]);
        }
        throw error;
      }
    },
  } satisfies Handlers;
}

/** What openid-client found is for the log; a client learns the code. */
function explain({ log }: Request, providerId: string | null, error: unknown): void {
  const { cause } = error as { cause?: unknown };
  if (cause instanceof Error)
    log.warn(
      { provider_id: providerId, code: codeOf(error), reason: cause.message },
      'single sign-on was refused',
    );
}
