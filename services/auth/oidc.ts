/** The conversation with an identity provider: OpenID Connect Core 1.0, code flow with PKCE (RFC 7636), state, nonce and iss (RFC 9207). */
import { LRUCache } from 'lru-cache';
import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  calculatePKCECodeChallenge,
  ClientError,
  ClientSecretBasic,
  ClientSecretPost,
  Configuration,
  customFetch,
  discovery,
  enableNonRepudiationChecks,
  fetchUserInfo,
  getJwksCache,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
  ResponseBodyError,
  setJwksCache,
  WWWAuthenticateChallengeError,
  type ClientAuth,
  type CustomFetch,
  type ServerMetadata,
} from 'openid-client';
import { Email } from '../../shared/contracts/fields.ts';
import { type ErrorCode } from '../../shared/contracts/error-codes.ts';
import { StrataError } from '../../shared/errors.ts';
import type { GuardedFetch } from '../../shared/outgoing/guarded-fetch.ts';
import { OutgoingError } from '../../shared/outgoing/outgoing-error.ts';
import { problemsOf } from '../../shared/schema/validate.ts';
import type { Settings } from '../../shared/settings.ts';
import type { SsoClaims } from './rules/sso-account.ts';

export interface OidcClient {
  readonly id: string;
  readonly issuer: string;
  readonly client_id: string;
  readonly client_secret: string;
}
/** What is kept between the two halves of a sign-in. */
export interface Begun {
  readonly redirect_uri: string;
  readonly nonce: string;
  readonly verifier: string;
}
export interface Answered {
  readonly code: string;
  readonly state: string;
  readonly iss?: string | undefined;
}
export type Oidc = ReturnType<typeof createOidc>;

/** Signatures that only the provider can make. With HS* whoever knows the client secret could, and `none` is nobody's. */
const algorithms: ReadonlySet<string> = new Set([
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
]);
const metadataMinutes = 5;

interface Discovered {
  readonly metadata: ServerMetadata;
  jwks?: NonNullable<ReturnType<typeof getJwksCache>>;
}

type OidcSettings = Pick<
  Settings,
  'webhook_allow_http' | 'http_client_timeout_seconds' | 'request_timeout_ms'
>;

export function createOidc(guardedFetch: GuardedFetch, settings: () => OidcSettings) {
  const known = new LRUCache<string, Discovered>({ max: 1000, ttl: metadataMinutes * 60_000 });

  /** One deadline for all that a request asks of the provider, ahead of the request's own. */
  function patientFetch(): CustomFetch {
    const { http_client_timeout_seconds: seconds, request_timeout_ms: most } = settings();
    const deadline = AbortSignal.timeout(Math.min(seconds * 1000, most * 0.8));
    return (url, { method, headers, body }) =>
      guardedFetch(url, { method, headers, body, signal: deadline });
  }

  async function discover(client: OidcClient, fetch: CustomFetch): Promise<Discovered> {
    const key = `${client.id} ${client.issuer}`;
    const kept = known.get(key);
    if (kept) return kept;
    const found = await discovery(new URL(client.issuer), client.client_id, undefined, undefined, {
      [customFetch]: fetch,
      execute: settings().webhook_allow_http ? [allowInsecureRequests] : [],
    });
    const metadata: ServerMetadata = found.serverMetadata();
    // openid-client lets some hosts name a pattern as their issuer, which any of their tenants would match.
    if (new URL(metadata.issuer).href !== new URL(client.issuer).href)
      throw new ClientError('the provider says that it is another issuer');
    const signs = metadata.id_token_signing_alg_values_supported?.filter((name) =>
      algorithms.has(name),
    );
    const fresh: Discovered = {
      metadata: signs ? { ...metadata, id_token_signing_alg_values_supported: signs } : metadata,
    };
    known.set(key, fresh);
    return fresh;
  }

  async function configure(
    client: OidcClient,
  ): Promise<{ config: Configuration; discovered: Discovered }> {
    const fetch = patientFetch();
    const discovered = await discover(client, fetch).catch((error: unknown) => {
      throw judge(error, 'auth_sso_provider_error');
    });
    const { metadata, jwks } = discovered;
    const config = new Configuration(
      metadata,
      client.client_id,
      undefined,
      authenticationOf(metadata, client.client_secret),
    );
    config[customFetch] = fetch;
    enableNonRepudiationChecks(config);
    if (settings().webhook_allow_http) allowInsecureRequests(config);
    if (jwks) setJwksCache(config, jwks);
    return { config, discovered };
  }

  return {
    /** Where the browser goes, and what must come back. Throws `auth_sso_provider_error` or `auth_sso_provider_timeout`. */
    async begin(
      client: OidcClient,
      redirectUri: string,
      loginHint: string | undefined,
    ): Promise<Begun & { url: string; state: string }> {
      const { config } = await configure(client);
      const begun = {
        redirect_uri: redirectUri,
        nonce: randomNonce(),
        verifier: randomPKCECodeVerifier(),
      };
      const state = randomState();
      const parameters = {
        redirect_uri: redirectUri,
        scope: 'openid email profile',
        state,
        nonce: begun.nonce,
        code_challenge: await calculatePKCECodeChallenge(begun.verifier),
        code_challenge_method: 'S256',
        ...(loginHint === undefined ? {} : { login_hint: loginHint }),
      };
      try {
        return { ...begun, state, url: buildAuthorizationUrl(config, parameters).href };
      } catch (error) {
        throw judge(error, 'auth_sso_provider_error');
      }
    },

    /** Who signed in, proven by the provider. Throws one of the `auth_sso_*` codes, its cause without anything that was received. */
    async redeem(
      client: OidcClient,
      begun: Begun,
      { code, state, iss }: Answered,
    ): Promise<SsoClaims> {
      const { config, discovered } = await configure(client);
      const { metadata } = discovered;
      // Before the code is sent anywhere: one that another provider gave must not reach this one.
      if (
        iss === undefined
          ? metadata.authorization_response_iss_parameter_supported === true
          : iss !== metadata.issuer
      ) {
        throw new StrataError(
          'auth_sso_state_invalid',
          'The answer is not from the identity provider that was asked. Start again.',
        );
      }
      const answer = new URL(begun.redirect_uri);
      for (const [name, value] of Object.entries({ code, state, iss }))
        if (value !== undefined) answer.searchParams.set(name, value);
      try {
        const tokens = await authorizationCodeGrant(config, answer, {
          expectedState: state,
          expectedNonce: begun.nonce,
          pkceCodeVerifier: begun.verifier,
          idTokenExpected: true,
        });
        const token = tokens.claims()!;
        const asks = token.email === undefined && metadata.userinfo_endpoint !== undefined;
        const {
          email,
          email_verified: verified,
          name,
        } = asks ? await fetchUserInfo(config, tokens.access_token, token.sub) : token;
        if (!isStorable(token.sub) || token.sub.length > 255)
          throw new ClientError('the subject is not one');
        return {
          issuer: token.iss,
          subject: token.sub,
          email: problemsOf(Email, email).length === 0 ? (email as string) : null,
          // Some providers send the boolean as text.
          email_verified: verified === true || (verified as unknown) === 'true',
          name: isStorable(name) ? name.slice(0, 200) : null,
        };
      } catch (error) {
        throw judge(error, 'auth_sso_token_invalid');
      } finally {
        const jwks = getJwksCache(config);
        if (jwks) discovered.jwks = jwks;
      }
    },
  };
}

/** PostgreSQL keeps neither NUL nor lone surrogates. */
const isStorable = (text: unknown): text is string =>
  typeof text === 'string' && text !== '' && !text.includes('\0') && text.isWellFormed();

/** What the provider takes (OpenID Connect Discovery 1.0: `client_secret_basic` unless it says otherwise). */
const authenticationOf = (
  { token_endpoint_auth_methods_supported: methods }: ServerMetadata,
  secret: string,
): ClientAuth =>
  methods && !methods.includes('client_secret_basic')
    ? ClientSecretPost(secret)
    : ClientSecretBasic(secret);

/** openid-client's codes for an answer that is no OpenID Connect at all. */
const unfit = new Set([
  'OAUTH_RESPONSE_IS_NOT_CONFORM',
  'OAUTH_RESPONSE_IS_NOT_JSON',
  'OAUTH_HTTP_REQUEST_FORBIDDEN',
  'OAUTH_REQUEST_PROTOCOL_FORBIDDEN',
  'OAUTH_MISSING_SERVER_METADATA',
  'OAUTH_INVALID_SERVER_METADATA',
]);
const ourFault = new Set(['invalid_client', 'unauthorized_client']);

/** Errors of openid-client carry tokens and claims in `cause`: only their message and code go on. */
function judge(error: unknown, otherwise: ErrorCode): StrataError {
  const { message, code, cause } = error as { message?: string; code?: string; cause?: unknown };
  const failed = (to: ErrorCode, why = `${message} ${code ?? ''}`.trim()) =>
    new StrataError(to, undefined, { cause: new Error(why) });
  const outgoing = [error, cause].find((each) => each instanceof OutgoingError);
  if (outgoing)
    return failed(
      outgoing.reason === 'timed_out' ? 'auth_sso_provider_timeout' : 'auth_sso_provider_error',
      outgoing.message,
    );
  if (error instanceof ResponseBodyError) {
    const refused = error.status < 500 && !ourFault.has(error.error);
    return failed(
      refused ? 'auth_sso_exchange_failed' : 'auth_sso_provider_error',
      `token endpoint: ${error.error.slice(0, 100)}`,
    );
  }
  if (error instanceof WWWAuthenticateChallengeError || (code !== undefined && unfit.has(code)))
    return failed('auth_sso_provider_error');
  return failed(otherwise);
}
