/**
 * What auth removes when it has had its time. Nothing that may still be used: a session that can be
 * continued, a refresh token whose second use would show that it was stolen, an invitation that can
 * be accepted.
 */
import type { EntityManager } from 'typeorm';
import type { MemberAddress } from '../../../shared/contracts/members.ts';
import type { Sweep } from '../../../shared/database/sweeper.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { findErasing } from './erasure.ts';

/** Of a session: when it ended or will end. There is an index on exactly this. */
const sessionEnd = 'LEAST(revoked_at, expires_at)';

/**
 * Sessions that ended so many days ago, with all their refresh tokens: none is removed before its
 * session, because until then its second use has to end the session. A session that was continued
 * for a month has thousands, so a session stays until a later batch where they are more than one
 * batch removes. Where its person was last is kept: a sign-in lands there. A first administrator
 * whose password may not have been announced keeps theirs: they say that somebody knows it.
 *
 * Ids are compared as arrays, which PostgreSQL looks up in an index. Beside IN it may choose to go
 * through one table for each row of the other: an ANALYZE that runs while very many rows are being
 * inserted counts none of them.
 */
export const removeEndedSessions =
  (settings: () => Settings): Sweep =>
  async (manager: EntityManager, most) => {
    const [removed] = await manager.query<[{ sessions: number; refresh_tokens: number }]>(
      `WITH ended AS (
         SELECT id FROM auth.sessions
         WHERE ${sessionEnd} < now() - make_interval(days => $1)
           AND NOT EXISTS (SELECT FROM auth.unannounced_admin a WHERE a.user_id = sessions.user_id)
         ORDER BY ${sessionEnd} LIMIT $2 FOR UPDATE SKIP LOCKED
       ),
       tokens AS (
         DELETE FROM auth.refresh_tokens WHERE hash = ANY (ARRAY(
           SELECT hash FROM auth.refresh_tokens
           WHERE session_id = ANY (ARRAY(SELECT id FROM ended)) LIMIT $2
         )) RETURNING session_id
       ),
       removed AS (
         DELETE FROM auth.sessions
         WHERE id = ANY (ARRAY(SELECT id FROM ended)) AND (SELECT count(*) FROM tokens) < $2
         RETURNING user_id, tenant_id, last_used_at
       ),
       remembered AS (
         INSERT INTO auth.last_used_tenants AS known (user_id, tenant_id, last_used_at)
         SELECT user_id, tenant_id, max(last_used_at) FROM removed
         WHERE tenant_id IS NOT NULL GROUP BY user_id, tenant_id ORDER BY user_id, tenant_id
         ON CONFLICT (user_id, tenant_id) DO UPDATE
         SET last_used_at = GREATEST(known.last_used_at, excluded.last_used_at)
       )
       SELECT (SELECT count(*) FROM removed)::int AS sessions,
         (SELECT count(*) FROM tokens)::int AS refresh_tokens`,
      [settings().session_retention_days, most],
    );
    return removed;
  };

/**
 * Invitations that expired so many days ago, used or not. One that was used stays as long as
 * another: whoever used it and met a crash accepts it once more, signed in. What each has left
 * behind goes before it: `release` does that, and may be repeated.
 */
export const removeExpiredInvitations =
  (settings: () => Settings, release: (invited: MemberAddress) => Promise<void>): Sweep =>
  async (manager: EntityManager, most) => {
    const days = settings().session_retention_days;
    const expired = await manager.query<(MemberAddress & { id: string })[]>(
      `WITH expired AS (
         SELECT id, tenant_id, user_id FROM auth.invitations
         WHERE expires_at < now() - make_interval(days => $1) ORDER BY expires_at LIMIT $2
       ) SELECT * FROM expired`,
      [days, most],
    );
    // One that was sent again meanwhile stays, with its membership.
    const past =
      'FROM auth.invitations WHERE id = ANY ($2) AND expires_at < now() - make_interval(days => $1)';
    const { done, failures } = await tryEach(expired, async ({ id, tenant_id, user_id }) => {
      const found = await manager.query<unknown[]>(`SELECT ${past}`, [days, [id]]);
      if (found.length > 0) await release({ tenant_id, user_id });
    });
    await manager.query(`DELETE ${past}`, [days, done.map(({ id }) => id)]);
    if (failures.length > 0) throw failures[0];
    return { invitations: expired.length };
  };

/** Accounts whose erasure was cut off. `finish` does one, and may be repeated. */
export const finishErasures =
  (finish: (userId: string) => Promise<void>): Sweep =>
  async (manager: EntityManager, most) => {
    const accounts = await findErasing(manager, most);
    const { failures } = await tryEach(accounts, finish);
    if (failures.length > 0) throw failures[0];
    return { accounts: accounts.length };
  };

/** So many failures in one batch are not of single rows: what is asked does not answer. */
const mostFailures = 10;

/** One that fails holds up no others; what was not done is left for the next time. */
async function tryEach<T>(
  items: readonly T[],
  work: (item: T) => Promise<void>,
): Promise<{ readonly done: T[]; readonly failures: unknown[] }> {
  const done: T[] = [];
  const failures: unknown[] = [];
  for (const item of items) {
    if (failures.length >= mostFailures) break;
    try {
      await work(item);
      done.push(item);
    } catch (error) {
      failures.push(error);
    }
  }
  return { done, failures };
}
