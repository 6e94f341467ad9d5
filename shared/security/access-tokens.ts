/** Access tokens, in the profile of RFC 9068. */
import { createSignedTokens, type TokenSettings } from './signed-tokens.ts';

/**
 * What a token says of its bearer: user, session, tenant of the session, roles there and on the
 * platform.
 */
export interface AccessClaims {
  readonly sub: string;
  readonly sid: string;
  readonly tid: string | null;
  readonly roles: readonly string[];
}

export interface AccessTokenSettings extends TokenSettings {
  readonly access_token_ttl_seconds: number;
}

/** RFC 9068, 2.1. */
const kind = { label: 'access token', type: 'at+jwt', texts: ['sub', 'sid'] };

/** Throws without SECRET_KEY. */
export function createAccessTokens(settings: AccessTokenSettings) {
  const { issue, verify } = createSignedTokens<AccessClaims>(settings, kind);
  return {
    /** `expiresIn` is in seconds. */
    issue: (claims: AccessClaims, expiresIn = settings.access_token_ttl_seconds): string =>
      issue(claims, expiresIn),
    verify,
  };
}
