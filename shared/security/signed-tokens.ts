/**
 * Tokens of Strata's own: JWTs (RFC 7519), signed HS256 with a key derived from SECRET_KEY. Those
 * signed under SECRET_KEY_PREVIOUS are still verified.
 */
import { createSecretKey, randomUUID } from 'node:crypto';
import jwt from 'jsonwebtoken';
import type { ErrorCode } from '../contracts/error-codes.ts';
import { synchronizedNow } from '../process/synchronized-clock.ts';
import { createKeyRing, type SecretKeys } from './derived-keys.ts';

export interface TokenSettings extends SecretKeys {
  readonly base_url: string;
}

interface TokenKind {
  /** What the key is derived for: `access token`. */
  readonly label: string;
  /** Keeps a token of another kind, or whatever else is a JWT, from being taken for one of this. */
  readonly type: string;
  /** Claims that are texts. A token that lacks one is refused. */
  readonly texts: readonly string[];
}

/**
 * `exp`: when the token expires, in seconds since 1970. `issuer`: the BASE_URL of a token that our
 * key has signed and that is refused for it alone.
 */
export type Verified<Claims> =
  | { readonly ok: true; readonly claims: Claims & { readonly exp: number } }
  | { readonly ok: false; readonly code: ErrorCode; readonly issuer?: string };

const audience = 'strata';
const algorithm = 'HS256';
const seconds = (): number => Math.floor(synchronizedNow() / 1000);
const invalid = { ok: false, code: 'auth_token_invalid' } as const;

export function headerOf(token: string): { readonly kid?: string; readonly typ?: string } {
  try {
    return jwt.decode(token, { complete: true })?.header ?? {};
  } catch {
    // Of the type `JWT` the package reads the payload as well, which may be no JSON.
    return {};
  }
}

/** Throws without SECRET_KEY. */
export function createSignedTokens<Claims extends object>(
  settings: TokenSettings,
  { label, type, texts }: TokenKind,
) {
  const keys = createKeyRing(settings, { label, idLength: 16, neededTo: `sign ${label}s` });
  const verifyingKeys = new Map(keys.all.map(({ id, bytes }) => [id, createSecretKey(bytes)]));
  const { id: kid } = keys.current;
  const signingKey = verifyingKeys.get(kid)!;

  return {
    /** `expiresIn` is in seconds. */
    issue: (claims: Claims, expiresIn: number): string =>
      jwt.sign({ ...claims, jti: randomUUID(), iat: seconds() }, signingKey, {
        algorithm,
        header: { alg: algorithm, typ: type, kid },
        issuer: settings.base_url,
        audience,
        expiresIn,
      }),

    /** One that our key has signed is one that `issue` made. */
    verify(token: string): Verified<Claims> {
      const header = headerOf(token);
      const key = verifyingKeys.get(header.kid ?? '');
      if (!key || header.typ !== type) return invalid;
      try {
        const clockTimestamp = seconds();
        const claims = jwt.verify(token, key, {
          algorithms: [algorithm],
          audience,
          clockTimestamp,
        });
        if (typeof claims === 'string') return invalid;
        const { iss: issuer, exp } = claims;
        if (issuer !== settings.base_url)
          return { ...invalid, ...(issuer === undefined ? {} : { issuer }) };
        const isComplete = texts.every((name) => typeof claims[name] === 'string');
        if (typeof exp !== 'number' || !isComplete) return invalid;
        return { ok: true, claims: claims as unknown as Claims & { exp: number } };
      } catch (error) {
        const isExpired = error instanceof jwt.TokenExpiredError;
        return isExpired ? { ok: false, code: 'auth_token_expired' } : invalid;
      }
    },
  };
}
