/** Who people are at issuers. */
import type { EntityManager } from 'typeorm';

/**
 * The issuers through which somebody may enter the account, in order. One that has no provider any
 * more lets nobody in. A slash at the end makes no difference, as in a discovery, nor does the case:
 * comparing loosely is safe, since a further way in only asks for a stronger sign-in.
 */
export async function issuersKnowing(manager: EntityManager, userId: string): Promise<string[]> {
  const rows = await manager.query<{ issuer: string }[]>(
    `SELECT issuer FROM auth.sso_identities AS known
     WHERE user_id = $1 AND EXISTS (
       SELECT FROM auth.sso_providers AS provider
       WHERE lower(rtrim(provider.issuer, '/')) = lower(rtrim(known.issuer, '/'))
     ) GROUP BY issuer ORDER BY issuer`,
    [userId],
  );
  return rows.map(({ issuer }) => issuer);
}
