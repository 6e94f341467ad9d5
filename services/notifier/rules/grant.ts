/**
 * A grant: what an automation that runs may show to what executes it, which verifies it without
 * asking Strata. A JWS (RFC 7515) in compact form, EdDSA with Ed25519 (RFC 8037), whose payload is
 * a JWT (RFC 7519). `test/rules/grants.json` has vectors.
 */
import { jwtVerify, SignJWT, type CryptoKey, type JWTPayload, type JWTVerifyGetKey } from 'jose';
import type { ApprovalRow, AutomationRow, FrozenPolicy } from '../schema.ts';

export const algorithm = 'EdDSA';
/** Keeps an access token, or whatever else is a JWT, from being taken for a grant. */
export const grantType = 'strata-grant+jws';

export interface GrantClaims {
  /** BASE_URL. */
  readonly iss: string;
  /** Who is to execute it, as the automation asked; the issuer where it did not. */
  readonly aud: string;
  /** Who started the automation: what they are, a colon, their id. */
  readonly sub: string;
  /**
   * The automation and its attempt. Each runs once, and a heartbeat renews the grant under the same
   * name: who remembers names that were executed executes none twice.
   */
  readonly jti: string;
  readonly iat: number;
  /** Not after the slot is given up. */
  readonly exp: number;
  readonly tenant: string;
  readonly automation: string;
  readonly action_digest: string;
  readonly revision: AutomationRow['decided']['revision'];
  readonly approval?: {
    readonly id: string;
    readonly approved_by: readonly {
      readonly type: string;
      readonly id: string;
      readonly at: string;
    }[];
    readonly policy: FrozenPolicy | null;
  };
}

type Approved = Pick<ApprovalRow, 'id' | 'approved_by' | 'policy'>;

/**
 * Undefined where there is nothing to grant: it does not run, was redeemed, or is from before digests
 * were kept. What was consumed is granted to nobody else.
 */
export function claimsOf(
  row: AutomationRow,
  approval: Approved | null,
  issuer: string,
): GrantClaims | undefined {
  const { id, tenant_id: tenant, action_digest: digest, expires_at: end, requested_by: by } = row;
  if (row.state !== 'running' || row.redeemed_at !== null || digest === null || end === null)
    return undefined;
  return {
    iss: issuer,
    aud: row.audience ?? issuer,
    sub: `${by.type}:${by.id}`,
    jti: `${id}.1`,
    // When its time began the last time, by the clock of its end.
    iat: Math.floor(end.getTime() / 1000 - row.ttl_seconds),
    exp: Math.floor(end.getTime() / 1000),
    tenant,
    automation: id,
    action_digest: digest,
    revision: row.decided.revision,
    ...(approval && {
      approval: {
        id: approval.id,
        approved_by: (approval.approved_by ?? []).map(({ type, id: who, at }) => ({
          type,
          id: who,
          at,
        })),
        policy: approval.policy,
      },
    }),
  };
}

export interface SigningKey {
  readonly kid: string;
  readonly privateKey: CryptoKey;
}

export const signed = (
  claims: object,
  type: string,
  { kid, privateKey }: SigningKey,
): Promise<string> =>
  new SignJWT({ ...claims } satisfies JWTPayload)
    .setProtectedHeader({ alg: algorithm, typ: type, kid })
    .sign(privateKey);

/**
 * What is said under one of our keys, as the type that is wanted; undefined for anything else. Whether
 * its time is up is for the caller to say, by the database's clock.
 */
export async function verified(
  token: string,
  type: string,
  issuer: string,
  keyOf: JWTVerifyGetKey,
): Promise<JWTPayload | undefined> {
  try {
    const { payload } = await jwtVerify(token, keyOf, {
      algorithms: [algorithm],
      typ: type,
      issuer,
      requiredClaims: ['exp'],
      currentDate: new Date(0),
    });
    return payload;
  } catch {
    return undefined;
  }
}
