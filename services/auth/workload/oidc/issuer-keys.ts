/**
 * Keys of issuers: pasted by the platform, or found by OpenID Connect Discovery through the guarded
 * client. What is found is kept for ten minutes; an unknown `kid` asks again every half minute at
 * most, so that made-up tokens do not have Strata call anybody.
 */
import {
  createLocalJWKSet,
  createRemoteJWKSet,
  customFetch,
  errors,
  jwtVerify,
  type JSONWebKeySet,
  type JWTVerifyGetKey,
} from 'jose';
import { LRUCache } from 'lru-cache';
import type { WorkloadIssuer } from '../../../../shared/contracts/auth-workload.ts';
import { StrataError } from '../../../../shared/errors.ts';
import type { GuardedFetch } from '../../../../shared/outgoing/guarded-fetch.ts';
import { synchronizedNow } from '../../../../shared/process/synchronized-clock.ts';
import type { Settings } from '../../../../shared/settings/settings.ts';
import { signatureAlgorithms } from '../../rules/signature-algorithms.ts';
import { clockTolerance } from '../rules/subject-token.ts';

const keptMs = 10 * 60_000;
const againMs = 30_000;
/** As many as the platform may list, and what they were before. */
const mostIssuers = 200;

type KeySettings = Pick<Settings, 'http_client_timeout_seconds' | 'request_timeout_ms'>;

export function createIssuerKeys(guardedFetch: GuardedFetch, settings: () => KeySettings) {
  const found = new LRUCache<string, Promise<JWTVerifyGetKey>>({ max: mostIssuers });

  /** Ahead of the request's own deadline, in milliseconds. */
  const patience = (): number =>
    Math.floor(
      Math.min(settings().http_client_timeout_seconds * 1000, settings().request_timeout_ms * 0.4),
    );

  const fetchWithin: GuardedFetch = (url, init) =>
    guardedFetch(url, { ...init, signal: AbortSignal.timeout(patience()) });

  /** OpenID Connect Discovery 1.0, 4: the metadata name the issuer that was asked, exactly. */
  async function discover(issuer: string): Promise<JWTVerifyGetKey> {
    const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
    const response = await fetchWithin(address, { headers: { accept: 'application/json' } });
    const metadata = (await response.json()) as { issuer?: unknown; jwks_uri?: unknown } | null;
    const { issuer: named, jwks_uri: uri } = metadata ?? {};
    if (response.status !== 200 || named !== issuer || typeof uri !== 'string')
      throw new Error('the issuer says that it is another one, or not where its keys are');
    let askedAt = -Infinity;
    return createRemoteJWKSet(new URL(uri), {
      [customFetch]: async (url, { headers }) => {
        // The library waits between answers, and not at all where there is none.
        if (performance.now() - askedAt < againMs)
          throw new Error('its keys were asked for half a minute ago at most, and not answered');
        askedAt = performance.now();
        return fetchWithin(url, { headers });
      },
      cacheMaxAge: keptMs,
      cooldownDuration: againMs,
      timeoutDuration: patience(),
    });
  }

  function keysOf({ id, issuer, jwks }: WorkloadIssuer): Promise<JWTVerifyGetKey> {
    const known = found.get(id);
    if (known) return known;
    const keys = jwks
      ? Promise.resolve(createLocalJWKSet(jwks as unknown as JSONWebKeySet))
      : discover(issuer);
    found.set(id, keys, { ttl: keptMs });
    // What failed is asked again, and not by each token that comes meanwhile.
    keys.catch(() => found.set(id, keys, { ttl: againMs }));
    return keys;
  }

  return {
    /**
     * Whether the issuer has signed the token for this audience. Throws `auth_workload_issuer_error`
     * where its keys cannot be had.
     */
    async verifies(token: string, issuer: WorkloadIssuer, audience: string): Promise<boolean> {
      // Whatever is wrong with its metadata is the issuer's, and not the token's.
      const keys = await keysOf(issuer).catch((error: unknown) => {
        throw issuerError(error);
      });
      try {
        await jwtVerify(token, keys, {
          algorithms: [...signatureAlgorithms],
          issuer: issuer.issuer,
          audience,
          clockTolerance,
          currentDate: new Date(synchronizedNow()),
          requiredClaims: ['iss', 'aud', 'exp'],
        });
        return true;
      } catch (error) {
        if (isOfToken(error)) return false;
        throw issuerError(error);
      }
    },
  };
}

const issuerError = (cause: unknown): StrataError =>
  new StrataError('auth_workload_issuer_error', undefined, { cause });

/** Else the issuer could not be asked, or answers what is no key set. */
const isOfToken = (error: unknown): boolean =>
  error instanceof errors.JWTClaimValidationFailed ||
  error instanceof errors.JWTExpired ||
  error instanceof errors.JWTInvalid ||
  error instanceof errors.JWSInvalid ||
  error instanceof errors.JWSSignatureVerificationFailed ||
  error instanceof errors.JOSEAlgNotAllowed ||
  error instanceof errors.JOSENotSupported ||
  error instanceof errors.JWKSNoMatchingKey ||
  error instanceof errors.JWKSMultipleMatchingKeys ||
  error instanceof TypeError;
