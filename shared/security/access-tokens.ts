/**
 * Access tokens: JWT (RFC 7519) in the profile of RFC 9068, signed HS256 with a key derived from
 * SECRET_KEY.
 */
import { createSecretKey, randomUUID } from 'node:crypto';
import jwt from 'jsonwebtoken';
import type { ErrorCode } from '../contracts/error-codes.ts';
import { createKeyRing, type SecretKeys } from './derived-keys.ts';

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
/** `exp`: when the token expires, in seconds since 1970. */
type VerifiedClaims = AccessClaims & { readonly exp: number };

/** `issuer`: the BASE_URL of a token that our key has signed and that is refused for it alone. */
export type Verified =
  | { readonly ok: true; readonly claims: VerifiedClaims }
  | { readonly ok: false; readonly code: ErrorCode; readonly issuer?: string };

export interface AccessTokenSettings extends SecretKeys {
  readonly base_url: string;
  readonly access_token_ttl_seconds: number;
}

const audience = 'strata';
/**
 * RFC 9068, 2.1: keeps an ID token, or whatever else is a JWT, from being taken for an access
 * token.
 */
const type = 'at+jwt';
const algorithm = 'HS256';

const refused = (code: ErrorCode): Verified => ({ ok: false, code });

/**
 * Only what requests are decided by is looked at: a token that our key has signed is one that
 * `issue` made.
 */
const isComplete = (claims: string | jwt.JwtPayload): claims is jwt.JwtPayload & VerifiedClaims =>
  typeof claims !== 'string' &&
  typeof claims.sub === 'string' &&
  typeof claims.sid === 'string' &&
  typeof claims.exp === 'number';

/** Tokens signed under SECRET_KEY_PREVIOUS are still verified. Throws without SECRET_KEY. */
export function createAccessTokens(settings: AccessTokenSettings) {
  const keys = createKeyRing(settings, {
    label: 'access token',
    idLength: 16,
    neededTo: 'sign access tokens',
  });
  const signingKey = createSecretKey(keys.current.bytes);
  const verifyingKeys = new Map(keys.all.map(({ id, bytes }) => [id, createSecretKey(bytes)]));
  const header = { alg: algorithm, typ: type, kid: keys.current.id };

  return {
    issue: (claims: AccessClaims): string =>
      jwt.sign({ ...claims, jti: randomUUID() }, signingKey, {
        algorithm,
        header,
        issuer: settings.base_url,
        audience,
        expiresIn: settings.access_token_ttl_seconds,
      }),

    verify(token: string): Verified {
      const { kid, typ } = jwt.decode(token, { complete: true })?.header ?? {};
      const key = kid === undefined ? undefined : verifyingKeys.get(kid);
      if (!key || typ !== type) return refused('auth_token_invalid');
      try {
        const claims = jwt.verify(token, key, {
          algorithms: [algorithm],
          audience,
        });
        const { iss } = typeof claims === 'string' ? {} : claims;
        if (iss !== settings.base_url)
          return {
            ...refused('auth_token_invalid'),
            ...(iss === undefined ? {} : { issuer: iss }),
          };
        return isComplete(claims) ? { ok: true, claims } : refused('auth_token_invalid');
      } catch (error) {
        const isExpired = error instanceof jwt.TokenExpiredError;
        return refused(isExpired ? 'auth_token_expired' : 'auth_token_invalid');
      }
    },
  };
}
