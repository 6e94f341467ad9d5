/** A sign-in between its beginning at Strata and the provider's answer. */
import { hash } from 'node:crypto';
import type { DataSource } from 'typeorm';
import type { ShortLivedState } from '../../../shared/concurrency/short-lived-state.ts';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { codeOf, invalid, StrataError } from '../../../shared/errors.ts';
import type { AuthParts } from '../parts.ts';
import type { SsoProviderRow } from '../schema.ts';
import type { OwnSession } from '../sessions/rules/own-session.ts';
import type { AuthorizationRequest } from './oidc/identity-provider.ts';
import { clientOf, findEnabledProvider } from './stores/sso-providers.ts';

/** A sign-in that the provider has not answered yet. */
export interface PendingSignIn extends AuthorizationRequest {
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
  readonly redirect_uri: string;
  readonly client_challenge: string;
  readonly linking: OwnSession | null;
  readonly email?: string;
  /** In seconds: how long ago the person may have signed in at the provider. */
  readonly max_age?: number;
}

const pendingSeconds = 600;
const pendingKey = (state: string): string => `sso_${state}`;

/** The S256 challenge of a verifier (RFC 7636, 4.2), here between the client and Strata. */
const challengeOf = (verifier: string): string => hash('sha256', verifier, 'base64url');

export async function beginAt(
  { settings, shortLived, identityProviders }: AuthParts,
  provider: SsoProviderRow | null,
  { redirect_uri: redirectUri, client_challenge, linking, email, max_age: maxAge }: Beginning,
  request: Request,
) {
  if (!provider) throw new StrataError('auth_sso_provider_not_found');
  if (!provider.redirect_uris.includes(redirectUri)) {
    const message = "is not one of the provider's redirect_uris";
    throw invalid([{ path: '/redirect_uri', message }]);
  }
  const client = clientOf(provider, settings());
  const begun = await identityProviders
    .begin(client, redirectUri, { loginHint: email, maxAge })
    .catch((error: unknown) => {
      logReason(error, provider.id, request);
      throw error;
    });
  const pending: PendingSignIn = {
    ...begun.kept,
    provider_id: provider.id,
    issuer: provider.issuer,
    client_id: provider.client_id,
    client_challenge,
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
export async function takePending(
  shortLived: ShortLivedState,
  state: string,
): Promise<PendingSignIn> {
  const pending = await shortLived.take<PendingSignIn>(pendingKey(state));
  if (!pending) throw new StrataError('auth_sso_state_invalid');
  return pending;
}

export function requireOwnClient(pending: PendingSignIn, clientVerifier: string): void {
  if (pending.client_challenge !== challengeOf(clientVerifier))
    throw new StrataError('auth_sso_state_invalid');
}

export async function requireUnchangedProvider(
  db: DataSource,
  pending: PendingSignIn,
): Promise<SsoProviderRow> {
  const provider = await findEnabledProvider(db.manager, pending.provider_id);
  if (!provider) throw new StrataError('auth_sso_provider_not_found');
  const isUnchanged =
    provider.issuer === pending.issuer && provider.client_id === pending.client_id;
  if (!isUnchanged) throw changedSince();
  return provider;
}

const changedSince = (): StrataError =>
  new StrataError('auth_sso_state_invalid', 'The provider was changed since. Start again.');

/** Throws where it is of another issuer, or good for another tenant, than when it was read. */
export function requireSameProvider(current: SsoProviderRow, read: SsoProviderRow): void {
  const isSame = current.issuer === read.issuer && current.tenant_id === read.tenant_id;
  if (!isSame) throw changedSince();
}

/** What openid-client found wrong is for the log; a client learns the code only. */
export function logReason(error: unknown, providerId: string, { log }: Request): void {
  const cause = error instanceof Error ? error.cause : undefined;
  if (!(cause instanceof Error)) return;
  log.warn(
    { provider_id: providerId, code: codeOf(error), reason: cause.message },
    'single sign-on was refused',
  );
}
