/**
 * Tokens that workloads got for those of their platforms: JWTs signed HS256 with a key derived from
 * SECRET_KEY. They name the rule and the issuer that they were given by, and end with either.
 */
import { createSecretKey, randomUUID } from 'node:crypto';
import jwt from 'jsonwebtoken';
import type { KeyScope } from '../contracts/roles.ts';
import type { ErrorCode } from '../contracts/error-codes.ts';
import { createKeyRing, type SecretKeys } from './derived-keys.ts';

export interface WorkloadClaims {
  /** The service account. */
  readonly sub: string;
  /** Its tenant. */
  readonly tid: string;
  readonly rule: string;
  readonly issuer: string;
  readonly scopes: readonly KeyScope[];
}
type VerifiedWorkload =
  | { readonly ok: true; readonly claims: WorkloadClaims & { readonly exp: number } }
  | { readonly ok: false; readonly code: ErrorCode };

interface WorkloadTokenSettings extends SecretKeys {
  readonly base_url: string;
}

const audience = 'strata';
/** Keeps an access token, or whatever else is a JWT, from being taken for one. */
const type = 'strata-workload+jwt';
const algorithm = 'HS256';

const headerOf = (token: string): { readonly kid?: string; readonly typ?: string } =>
  jwt.decode(token, { complete: true })?.header ?? {};

/** By its header alone, which anybody can write. */
export const looksLikeWorkloadToken = (token: string): boolean => headerOf(token).typ === type;

/** Tokens signed under SECRET_KEY_PREVIOUS are still verified. Throws without SECRET_KEY. */
export function createWorkloadTokens(settings: WorkloadTokenSettings) {
  const keys = createKeyRing(settings, {
    label: 'workload token',
    idLength: 16,
    neededTo: 'sign workload tokens',
  });
  const verifyingKeys = new Map(keys.all.map(({ id, bytes }) => [id, createSecretKey(bytes)]));
  const signingKey = verifyingKeys.get(keys.current.id)!;
  const issuer = settings.base_url;

  return {
    issue: (claims: WorkloadClaims, expiresIn: number): string =>
      jwt.sign({ ...claims, jti: randomUUID() }, signingKey, {
        algorithm,
        header: { alg: algorithm, typ: type, kid: keys.current.id },
        issuer,
        audience,
        expiresIn,
      }),

    verify(token: string): VerifiedWorkload {
      const { kid, typ } = headerOf(token);
      const key = kid === undefined ? undefined : verifyingKeys.get(kid);
      if (!key || typ !== type) return { ok: false, code: 'auth_token_invalid' };
      try {
        const claims = jwt.verify(token, key, { algorithms: [algorithm], issuer, audience });
        // One that our key has signed is one that `issue` made.
        return { ok: true, claims: claims as unknown as WorkloadClaims & { exp: number } };
      } catch (error) {
        const isExpired = error instanceof jwt.TokenExpiredError;
        return { ok: false, code: isExpired ? 'auth_token_expired' : 'auth_token_invalid' };
      }
    },
  };
}
