/** Exchanging a refresh token for a new pair. */
import type { EntityManager } from 'typeorm';
import type { Call, Handlers, Request } from '../../../../shared/contract-runtime/request.ts';
import { lockRow } from '../../../../shared/database/locked-row.ts';
import { StrataError } from '../../../../shared/errors.ts';
import {
  validateRefresh,
  refreshKeysOf,
  refreshHash,
  successorOf,
  successorStoredAs,
} from '../rules/refresh-tokens.ts';
import { RefreshEntity, SessionEntity, type RefreshRow, type SessionRow } from '../../schema.ts';
import type { AuthParts } from '../../parts.ts';
import { identityEvent } from '../../stores/audit-events.ts';
import { databaseTime } from '../../stores/clock.ts';
import { endSessions, rotateRefreshToken } from '../stores/sessions.ts';
import type { Membership } from '../../accounts/rules/memberships.ts';
import { findUser } from '../../accounts/stores/users.ts';

export function refreshActions({ db, settings, signIn }: AuthParts) {
  const findToken = (manager: EntityManager, hash: string): Promise<RefreshRow | null> =>
    manager.findOneBy(RefreshEntity, { hash });

  async function lockSessionOf(manager: EntityManager, hash: string): Promise<SessionRow | null> {
    const token = await findToken(manager, hash);
    if (!token) return null;
    return lockRow(manager, SessionEntity, { id: token.session_id });
  }

  /** Of whose token it is; none where it is nobody's. */
  async function membershipsOf(presented: string, call: Call): Promise<readonly Membership[]> {
    const token = await findToken(db.manager, refreshHash(presented));
    const session = token && (await db.manager.findOneBy(SessionEntity, { id: token.session_id }));
    return session ? call('tenant-config.members.of', { user_id: session.user_id }) : [];
  }

  /** Judges the token, and rotates it where it is unused. The successor is what to continue with. */
  async function exchange(manager: EntityManager, presented: string) {
    const hash = refreshHash(presented);
    const session = await lockSessionOf(manager, hash);
    // Read again under the session's lock: another request may have used the token meanwhile.
    const token = session && (await findToken(manager, hash));
    const next = token?.successor ? await findToken(manager, token.successor) : null;
    const successorUsed = next !== null && next.used_at !== null;
    // Nodes' clocks differ, and a retry may come to another node than the exchange did.
    const now = await databaseTime(manager);
    const verdict = validateRefresh(
      token,
      session,
      successorUsed,
      now,
      settings().request_timeout_ms,
    );
    const ring = refreshKeysOf(settings());
    const keys = ring.all.map(({ bytes }) => bytes);
    if (session && verdict === 'rotate') {
      const successor = successorOf(presented, ring.current.bytes);
      await rotateRefreshToken(manager, session.id, presented, successor, now);
      return { verdict, session, successor };
    }
    if (token?.successor && verdict === 'repeat')
      return {
        verdict,
        session,
        successor: successorStoredAs(token.successor, presented, keys),
      };
    return { verdict, session };
  }

  async function endStolenSession(session: SessionRow, request: Request): Promise<void> {
    const { id, user_id: userId } = session;
    const payload = { session_id: id };
    const event = identityEvent('auth.refresh_reused', userId, payload);
    await endSessions(db, request, [id], event);
  }

  return {
    async 'auth.refresh'({ body: { refresh_token: presented } }, request) {
      // Before the token is used up: while they cannot be read it stays good, and who tries again
      // later is no thief.
      const memberships = await membershipsOf(presented, request.call);
      const { verdict, session, successor } = await db.transaction((manager) =>
        exchange(manager, presented),
      );
      if (!session || verdict === 'invalid') throw new StrataError('auth_refresh_invalid');
      if (verdict === 'expired') throw new StrataError('auth_refresh_expired');
      if (verdict === 'reused') {
        await endStolenSession(session, request);
        throw new StrataError('auth_refresh_reused');
      }
      // A retry whose successor was made with a key that this node does not have, while the nodes
      // change theirs. Another node knows it.
      if (successor === undefined)
        throw new StrataError('service_unavailable', 'SECRET_KEY is being changed. Try again.');
      const user = await findUser(db.manager, session.user_id);
      if (user?.status !== 'active') throw new StrataError('auth_refresh_invalid');
      const continued = { session, refreshToken: successor };
      return signIn.tokenResponse(user, continued, request.call, memberships);
    },
  } satisfies Handlers;
}
