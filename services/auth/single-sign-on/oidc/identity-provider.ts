/**
 * The conversation with an identity provider: OpenID Connect Core 1.0, code flow with PKCE (RFC
 * 7636), state, nonce and iss (RFC 9207). `begin` makes the address the browser is sent to,
 * `redeem` exchanges what it comes back with.
 */
import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  calculatePKCECodeChallenge,
  ClientSecretBasic,
  ClientSecretPost,
  clockSkew,
  Configuration,
  customFetch,
  enableNonRepudiationChecks,
  fetchUserInfo,
  getJwksCache,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
  setJwksCache,
  type ClientAuth,
  type CustomFetch,
  type ServerMetadata,
} from 'openid-client';
import { StrataError } from '../../../../shared/errors.ts';
import type { GuardedFetch } from '../../../../shared/outgoing/guarded-fetch.ts';
import { synchronizedNow } from '../../../../shared/process/synchronized-clock.ts';
import type { Settings } from '../../../../shared/settings/settings.ts';
import type { SsoClaims } from '../rules/sso-account.ts';
import { claimsOf } from './claims.ts';
import { createDiscovery, type Discovered, type RegisteredClient } from './discovery.ts';
import { failureOf } from './failures.ts';

/** What is kept of an authorization request until its response comes back. */
export interface AuthorizationRequest {
  readonly redirect_uri: string;
  readonly nonce: string;
  /** Of PKCE between Strata and the provider. */
  readonly verifier: string;
}
/** What is asked of the provider beside who signs in. */
interface AuthorizationWishes {
  readonly loginHint: string | undefined;
  /** In seconds: whoever signed in there longer ago signs in again; 0 for always. */
  readonly maxAge: number | undefined;
}
/**
 * Where nobody asks for less, so that the token says when the person signed in (OpenID Connect Core
 * 1.0, 2: `auth_time` is required where `max_age` was sent). 30 days, as long as a session lasts.
 */
const usualMaxAge = 30 * 86_400;

/** The parameters with which the provider sent the browser back. */
export interface AuthorizationResponse {
  readonly code: string;
  readonly state: string;
  readonly iss?: string | undefined;
}

type IdentityProviderSettings = Pick<
  Settings,
  'webhook_allow_http' | 'http_client_timeout_seconds' | 'request_timeout_ms'
>;

/**
 * Share of a request's own time limit that the provider may take; the rest is for what Strata does
 * with its answer.
 */
const shareOfRequestTime = 0.8;

export function createIdentityProviders(
  guardedFetch: GuardedFetch,
  settings: () => IdentityProviderSettings,
) {
  const discover = createDiscovery();

  /** One deadline for all that one request asks of the provider, ahead of the request's own. */
  function fetchWithDeadline(): CustomFetch {
    const { http_client_timeout_seconds: seconds, request_timeout_ms: requestMs } = settings();
    const deadlineMs = Math.floor(Math.min(seconds * 1000, requestMs * shareOfRequestTime));
    const signal = AbortSignal.timeout(deadlineMs);
    return (url, { method, headers, body }) => guardedFetch(url, { method, headers, body, signal });
  }

  async function configure(
    client: RegisteredClient,
  ): Promise<{ config: Configuration; discovered: Discovered }> {
    const fetch = fetchWithDeadline();
    const allowHttp = settings().webhook_allow_http;
    const discovered = await discover(client, fetch, { allowHttp }).catch((error: unknown) => {
      throw failureOf(error, 'auth_sso_provider_error');
    });
    const { metadata, jwks } = discovered;
    const authentication = authenticationFor(metadata, client.client_secret);
    const skew = { [clockSkew]: (synchronizedNow() - Date.now()) / 1000 };
    const config = new Configuration(metadata, client.client_id, skew, authentication);
    config[customFetch] = fetch;
    enableNonRepudiationChecks(config);
    if (allowHttp) allowInsecureRequests(config);
    if (jwks) setJwksCache(config, jwks);
    return { config, discovered };
  }

  return {
    /**
     * Where the browser goes, and what must come back. Throws `auth_sso_provider_error` or
     * `auth_sso_provider_timeout`.
     */
    async begin(
      client: RegisteredClient,
      redirectUri: string,
      { loginHint, maxAge = usualMaxAge }: AuthorizationWishes,
    ): Promise<{ url: string; state: string; kept: AuthorizationRequest }> {
      const { config } = await configure(client);
      const kept: AuthorizationRequest = {
        redirect_uri: redirectUri,
        nonce: randomNonce(),
        verifier: randomPKCECodeVerifier(),
      };
      const state = randomState();
      const parameters = {
        redirect_uri: redirectUri,
        scope: 'openid email profile',
        state,
        nonce: kept.nonce,
        code_challenge: await calculatePKCECodeChallenge(kept.verifier),
        code_challenge_method: 'S256',
        max_age: String(maxAge),
        ...(maxAge === 0 && { prompt: 'login' }),
        ...(loginHint !== undefined && { login_hint: loginHint }),
      };
      try {
        return { url: buildAuthorizationUrl(config, parameters).href, state, kept };
      } catch (error) {
        throw failureOf(error, 'auth_sso_provider_error');
      }
    },

    /**
     * Who signed in, proven by the provider. Throws one of the `auth_sso_*` codes, its cause
     * without anything that was received.
     */
    async redeem(
      client: RegisteredClient,
      request: AuthorizationRequest,
      response: AuthorizationResponse,
    ): Promise<SsoClaims> {
      const { config, discovered } = await configure(client);
      // Before the code is sent anywhere: one that another provider gave must not reach this one.
      requireSender(discovered.metadata, response.iss);
      try {
        const tokens = await authorizationCodeGrant(config, redirectedUrl(request, response), {
          expectedState: response.state,
          expectedNonce: request.nonce,
          pkceCodeVerifier: request.verifier,
          idTokenExpected: true,
        });
        const token = tokens.claims()!;
        const asksUserInfo =
          token.email === undefined && discovered.metadata.userinfo_endpoint !== undefined;
        const profile = asksUserInfo
          ? await fetchUserInfo(config, tokens.access_token, token.sub)
          : token;
        return claimsOf(token, profile);
      } catch (error) {
        throw failureOf(error, 'auth_sso_token_invalid');
      } finally {
        const jwks = getJwksCache(config);
        if (jwks) discovered.jwks = jwks;
      }
    },
  };
}

/**
 * Throws unless the response names the provider that was asked, as it must where the provider says
 * that it sends `iss` (RFC 9207).
 */
function requireSender(metadata: ServerMetadata, iss: string | undefined): void {
  const isRequired = metadata.authorization_response_iss_parameter_supported === true;
  const isSender = iss === undefined ? !isRequired : iss === metadata.issuer;
  if (isSender) return;
  throw new StrataError(
    'auth_sso_state_invalid',
    'The answer is not from the identity provider that was asked. Start again.',
  );
}

/** The address that the browser came back to, which openid-client reads the parameters from. */
function redirectedUrl(request: AuthorizationRequest, { code, state, iss }: AuthorizationResponse) {
  const url = new URL(request.redirect_uri);
  url.searchParams.set('code', code);
  url.searchParams.set('state', state);
  if (iss !== undefined) url.searchParams.set('iss', iss);
  return url;
}

/**
 * How the provider wants the client secret (OpenID Connect Discovery 1.0, 3: `client_secret_basic`
 * unless it says otherwise).
 */
function authenticationFor(metadata: ServerMetadata, secret: string): ClientAuth {
  // The library has not looked whether it is a list.
  const methods: unknown[] = [
    metadata.token_endpoint_auth_methods_supported ?? 'client_secret_basic',
  ].flat();
  return methods.includes('client_secret_basic')
    ? ClientSecretBasic(secret)
    : ClientSecretPost(secret);
}
