/**
 * Rows of invitations: one for each member who has not accepted yet, with the hash of the link that
 * was mailed last.
 */
import { randomUUID } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import { invitationDays, invitationHash } from '../rules/invitations.ts';
import { InvitationEntity, type InvitationRow } from '../../schema.ts';

export type NewInvitation = Pick<
  InvitationRow,
  'tenant_id' | 'user_id' | 'tenant_name' | 'invited_by'
>;

/**
 * Puts the invitation in the place of an earlier one of the same member, whose link ends with that.
 */
export async function putInvitation(
  manager: EntityManager,
  { tenant_id, user_id, tenant_name, invited_by }: NewInvitation,
  token: string,
): Promise<void> {
  const hash = invitationHash(token);
  await manager.query(
    `INSERT INTO auth.invitations AS i
       (id, tenant_id, user_id, tenant_name, token_hash, invited_by, created_at, expires_at, used_at)
     VALUES ($1, $2, $3, $4, $5, $6, now(), now() + make_interval(days => $7), NULL)
     ON CONFLICT (user_id, tenant_id) DO UPDATE SET tenant_name = $4, token_hash = $5,
       invited_by = $6, created_at = EXCLUDED.created_at, expires_at = EXCLUDED.expires_at, used_at = NULL`,
    [randomUUID(), tenant_id, user_id, tenant_name, hash, invited_by, invitationDays],
  );
}

/** The invitation of a mailed link that has not been used; null for any other token. */
export const findUnusedInvitation = (
  manager: EntityManager,
  token: string,
): Promise<InvitationRow | null> =>
  manager
    .createQueryBuilder(InvitationEntity, 'i')
    .where('i.token_hash = :hash AND i.used_at IS NULL AND i.expires_at > now()', {
      hash: invitationHash(token),
    })
    .getOne();

/** Of whichever tenant: the person accepts signed in, or is invited again. */
export async function endInvitationLinks(manager: EntityManager, userId: string): Promise<void> {
  await manager.query(
    'UPDATE auth.invitations SET used_at = now() WHERE user_id = $1 AND used_at IS NULL',
    [userId],
  );
}

/**
 * Uses the link up; false where another request was faster, a later mail has another link, or it has
 * ended. By the clock: the transaction may have begun before that.
 */
export async function useInvitation(
  manager: EntityManager,
  { id, token_hash: hash }: InvitationRow,
): Promise<boolean> {
  const [, count] = await manager.query<[unknown[], number]>(
    `UPDATE auth.invitations SET used_at = now()
     WHERE id = $1 AND token_hash = $2 AND used_at IS NULL AND expires_at > clock_timestamp()`,
    [id, hash],
  );
  return count === 1;
}
