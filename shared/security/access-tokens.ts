/** Access tokens: JWT (RFC 7519) in the profile of RFC 9068, signed HS256 with a key derived from SECRET_KEY. */
import { createHash, createSecretKey, randomUUID, type KeyObject } from 'node:crypto';
import jwt from 'jsonwebtoken';
import type { ErrorCode } from '../contracts/error-codes.ts';
import { deriveKey } from './secrets.ts';

export interface AccessClaims {
  readonly sub: string;
  readonly sid: string;
  readonly tid: string | null;
  readonly roles: readonly string[];
}
export type Verified =
  | { readonly ok: true; readonly claims: AccessClaims & { readonly exp: number } }
  | { readonly ok: false; readonly code: ErrorCode };

export interface AccessTokenSettings {
  readonly secret_key: string | null;
  readonly secret_key_previous: string | null;
  readonly base_url: string;
  readonly access_token_ttl_seconds: number;
}

const audience = 'strata';
const type = 'at+jwt';

export function createAccessTokens(settings: AccessTokenSettings) {
  const keyOf = (secret: string): [string, KeyObject] => {
    const bytes = deriveKey(secret, 'access token');
    return [createHash('sha256').update(bytes).digest('hex').slice(0, 16), createSecretKey(bytes)];
  };
  if (settings.secret_key === null) throw new Error('SECRET_KEY is needed to sign access tokens');
  const [kid, key] = keyOf(settings.secret_key);
  const ring = new Map(
    settings.secret_key_previous === null
      ? [[kid, key]]
      : [keyOf(settings.secret_key_previous), [kid, key]],
  );
  return {
    issue: (claims: AccessClaims): string =>
      jwt.sign({ ...claims, jti: randomUUID() }, key, {
        algorithm: 'HS256',
        header: { alg: 'HS256', typ: type, kid },
        issuer: settings.base_url,
        audience,
        expiresIn: settings.access_token_ttl_seconds,
      }),

    verify(token: string): Verified {
      const header = jwt.decode(token, { complete: true })?.header;
      const fitting = header?.kid === undefined ? undefined : ring.get(header.kid);
      if (!fitting || header?.typ !== type) return { ok: false, code: 'auth_token_invalid' };
      try {
        const claims = jwt.verify(token, fitting, {
          algorithms: ['HS256'],
          issuer: settings.base_url,
          audience,
        }) as unknown as AccessClaims & { exp: number };
        const whole =
          typeof claims.sub === 'string' &&
          typeof claims.sid === 'string' &&
          typeof claims.exp === 'number';
        return whole ? { ok: true, claims } : { ok: false, code: 'auth_token_invalid' };
      } catch (error) {
        return {
          ok: false,
          code:
            error instanceof jwt.TokenExpiredError ? 'auth_token_expired' : 'auth_token_invalid',
        };
      }
    },
  };
}
