/** Rows of sessions and of their refresh tokens. */
import { randomUUID } from 'node:crypto';
import { IsNull, type DataSource, type EntityManager } from 'typeorm';
import type { Client, Request } from '../../../../shared/contract-runtime/request.ts';
import { commitCombined } from '../../../../shared/commits/combined-commits.ts';
import type { EventDraft } from '../../../../shared/commits/commit.ts';
import { sessionCacheKey } from '../../../../shared/contracts/auth.ts';
import { authScope } from '../../../../shared/contracts/revision-scopes.ts';
import { StrataError } from '../../../../shared/errors.ts';
import type { OwnSession } from '../rules/own-session.ts';
import type { SignInMethod } from '../../../../shared/contracts/sign-in-policy.ts';
import {
  besideToken,
  newRefreshToken,
  refreshHash,
  sessionSeconds,
} from '../rules/refresh-tokens.ts';
import {
  PasskeyEntity,
  RefreshEntity,
  SessionEntity,
  type SessionRow,
  type UserRow,
} from '../../schema.ts';
import { databaseTime } from '../../stores/clock.ts';
import { lockForSignIn } from '../../accounts/stores/users.ts';
import { issuersKnowing } from '../../single-sign-on/stores/sso-identities.ts';

/** A session, and the token it is continued with: only here, since only its hash is stored. */
export interface OpenedSession {
  readonly session: SessionRow;
  readonly refreshToken: string;
}

/**
 * Neither ended nor expired long ago: without the latter, ending all of them would name every
 * session that ever was. An hour allows for clocks that differ.
 */
const whereOpen = "revoked_at IS NULL AND expires_at > now() - interval '1 hour'";

/**
 * Those that are open, and those that ended within the hour, which a node may take for open if the
 * commit was lost to its writer. Of those that are confined to this tenant, where there is one; else
 * of all.
 */
export const sessionsToEnd = (
  manager: EntityManager,
  userId: string,
  confinedTo: string | undefined,
): Promise<{ readonly id: string; readonly is_open: boolean }[]> =>
  manager.query(
    `SELECT id, ${whereOpen} AS is_open FROM auth.sessions
     WHERE user_id = $1 AND (${whereOpen} OR revoked_at > now() - interval '1 hour')
       AND ($2::uuid IS NULL OR confined_to = $2)`,
    [userId, confinedTo ?? null],
  );

/** Newest first, at most so many. */
export const openSessionsOf = (
  manager: EntityManager,
  userId: string,
  most: number,
): Promise<SessionRow[]> =>
  manager.query<SessionRow[]>(
    `SELECT * FROM auth.sessions WHERE user_id = $1 AND revoked_at IS NULL AND expires_at > now()
     ORDER BY created_at DESC, id DESC LIMIT $2`,
    [userId, most],
  );

const cacheKeyOf = (sessionId: string): string => sessionCacheKey({ session_id: sessionId });

async function insertRefreshToken(
  manager: EntityManager,
  sessionId: string,
  token: string,
  createdAt: Date,
): Promise<void> {
  await manager.insert(RefreshEntity, {
    hash: refreshHash(token),
    session_id: sessionId,
    created_at: createdAt,
    used_at: null,
    successor: null,
  });
}

/** How somebody proved who they are. */
export interface Authentication {
  readonly method: SignInMethod;
  /** When; now where absent. */
  readonly at?: Date;
  readonly providerId?: string;
  /** The tenant that it is good for and no other; null for one that is good for all. */
  readonly confinedTo: string | null;
}

export async function insertSession(
  manager: EntityManager,
  userId: string,
  tenantId: string | null,
  { method, at, providerId, confinedTo }: Authentication,
  client: Client,
): Promise<OpenedSession> {
  const now = await databaseTime(manager);
  const session: SessionRow = {
    id: randomUUID(),
    user_id: userId,
    tenant_id: tenantId,
    created_at: now,
    authenticated_at: at ?? now,
    method,
    provider_id: providerId ?? null,
    confined_to: confinedTo,
    last_used_at: now,
    expires_at: new Date(now.getTime() + sessionSeconds * 1000),
    revoked_at: null,
    user_agent: client.user_agent ?? null,
    ip: client.ip ?? null,
  };
  const refreshToken = newRefreshToken();
  await manager.insert(SessionEntity, session);
  await insertRefreshToken(manager, session.id, refreshToken, now);
  return { session, refreshToken };
}

/**
 * The refresh token that a change of tenant gives beside the one in use, which stays good.
 */
export async function putTokenBeside(
  manager: EntityManager,
  sessionId: string,
  key: Buffer,
  now: Date,
): Promise<string> {
  const [inUse] = await manager.find(RefreshEntity, {
    where: { session_id: sessionId, used_at: IsNull() },
    order: { created_at: 'ASC' },
    take: 1,
  });
  const token = inUse ? besideToken(inUse.hash, key) : newRefreshToken();
  await manager.query(
    `INSERT INTO auth.refresh_tokens (hash, session_id, created_at) VALUES ($1, $2, $3)
     ON CONFLICT (hash) DO UPDATE SET created_at = $3`,
    [refreshHash(token), sessionId, now],
  );
  return token;
}

/**
 * A person's open sessions beyond the `most` that were used last: the oldest ones, which a further
 * sign-in ends. Only of those that are good for the same: a tenant's own provider, which may sign
 * somebody in any number of times, ends none that is good elsewhere.
 */
export async function idsBeyond(
  manager: EntityManager,
  { user_id, confined_to }: Pick<SessionRow, 'user_id' | 'confined_to'>,
  most: number,
): Promise<string[]> {
  const rows = await manager.query<{ id: string }[]>(
    `SELECT id FROM auth.sessions WHERE user_id = $1 AND revoked_at IS NULL AND expires_at > now()
       AND confined_to IS NOT DISTINCT FROM $3
     ORDER BY last_used_at DESC, id OFFSET $2 LIMIT 1000`,
    [user_id, most, confined_to],
  );
  return rows.map(({ id }) => id);
}

/** Moves a session on from its refresh tokens to `successor`. */
export async function rotateRefreshToken(
  manager: EntityManager,
  sessionId: string,
  presented: string,
  successor: string,
  now: Date,
): Promise<void> {
  // A change of tenant leaves two unused tokens. Both are used up: whoever continues from the other
  // one has stolen it.
  await manager.update(
    RefreshEntity,
    { session_id: sessionId, used_at: IsNull() },
    { used_at: now },
  );
  await manager.update(
    RefreshEntity,
    { hash: refreshHash(presented) },
    { successor: refreshHash(successor) },
  );
  await insertRefreshToken(manager, sessionId, successor, now);
  await manager.update(SessionEntity, { id: sessionId }, { last_used_at: now });
}

/**
 * Which of these tenants the account's sessions were in last: signed in, switched to or refreshed.
 * Null where in none of them.
 */
export async function findLastUsedTenant(
  manager: EntityManager,
  userId: string,
  tenantIds: readonly string[],
): Promise<string | null> {
  const [last] = await manager.query<{ tenant_id: string }[]>(
    `SELECT tenant_id FROM (
       SELECT user_id, tenant_id, last_used_at FROM auth.sessions
       UNION ALL SELECT user_id, tenant_id, last_used_at FROM auth.last_used_tenants
     ) AS used WHERE user_id = $1 AND tenant_id = ANY($2)
     ORDER BY last_used_at DESC LIMIT 1`,
    [userId, tenantIds],
  );
  return last?.tenant_id ?? null;
}

/**
 * The account and the session, for whatever makes or takes away a credential; with `lockForChange`
 * where how many credentials there are decides (`requireStrongest`). Throws `auth_session_revoked` where
 * the session has ended since the request began. The account stays locked as for a sign-in: whoever
 * ends its sessions waits for this transaction, and then ends what it made.
 */
export async function requireOpenSession(
  manager: EntityManager,
  { user_id: userId, session_id: id }: OwnSession,
  lock = lockForSignIn,
): Promise<{ readonly user: UserRow; readonly session: SessionRow }> {
  const user = await lock(manager, userId);
  const session = await manager.findOneBy(SessionEntity, {
    id,
    user_id: userId,
    revoked_at: IsNull(),
  });
  if (!user || !session) throw new StrataError('auth_session_revoked');
  return { user, session };
}

/**
 * Throws `auth_stronger_sign_in_required` where a password alone would change how the account is
 * entered without one: the first passkey may be added with it, as long as there is neither passkey
 * nor provider. Else whoever learns a password would add a passkey of theirs and remove the
 * owner's. The account is locked for a change, so that two at once add one.
 */
export async function requireStrongest(
  manager: EntityManager,
  { user_id, method }: SessionRow,
): Promise<void> {
  if (method !== 'password') return;
  const hasStronger =
    (await manager.existsBy(PasskeyEntity, { user_id })) ||
    (await issuersKnowing(manager, user_id)).length > 0;
  if (!hasStronger) return;
  throw new StrataError(
    'auth_stronger_sign_in_required',
    'The account has a passkey or a provider: sign in with that to change passkeys and providers. Who has lost them asks an administrator.',
  );
}

/** Throws `auth_stronger_sign_in_required` where a session is not good for this tenant. */
export function requireGoodFor(
  confinedTo: string | null | undefined,
  tenantId: string | null,
): void {
  if (confinedTo === null || confinedTo === undefined || confinedTo === tenantId) return;
  throw new StrataError(
    'auth_stronger_sign_in_required',
    "You signed in through a tenant's own provider, which is good for that tenant only. Sign in with a password, a passkey or another provider.",
  );
}

/**
 * Ends open sessions inside the caller's change. Gives the cache keys to drop with it, one a
 * session.
 */
async function endOpen(
  manager: EntityManager,
  condition: string,
  values: readonly unknown[],
): Promise<string[]> {
  const [ended] = await manager.query<[{ id: string }[], number]>(
    `UPDATE auth.sessions SET revoked_at = now() WHERE ${condition} AND ${whereOpen} RETURNING id`,
    [...values],
  );
  return ended.map(({ id }) => cacheKeyOf(id));
}

/** Those of an account, but for `keptId`. */
export const endSessionsOf = (manager: EntityManager, userId: string, keptId?: string) =>
  endOpen(manager, 'user_id = $1 AND id IS DISTINCT FROM $2', [userId, keptId ?? null]);

/** Those of an account that are in the tenant, or good for no other. */
export const endSessionsIn = (manager: EntityManager, userId: string, tenantId: string) =>
  endOpen(manager, 'user_id = $1 AND (tenant_id = $2 OR confined_to = $2)', [userId, tenantId]);

/**
 * Those of whoever signed in through the provider, whose word counts no more. Drops those that
 * ended within the hour as well, as `sessionsToEnd` names them; `ended` is how many were open.
 */
export async function endSessionsThrough(
  manager: EntityManager,
  providerId: string,
  keptId?: string,
): Promise<{ readonly keys: string[]; readonly ended: number }> {
  const condition = 'provider_id = $1 AND id IS DISTINCT FROM $2';
  const ended = await endOpen(manager, condition, [providerId, keptId ?? null]);
  const rows = await manager.query<{ id: string }[]>(
    `SELECT id FROM auth.sessions WHERE provider_id = $1 AND revoked_at > now() - interval '1 hour'`,
    [providerId],
  );
  return { keys: rows.map(({ id }) => cacheKeyOf(id)), ended: ended.length };
}

/**
 * Ends sessions as a change of its own: no node takes them any more by the time the request is
 * answered. All tenants have one scope, so sign-outs that wait for each other are committed
 * together, which is all that is frequent of what counts in it.
 */
export async function endSessions(
  db: DataSource,
  request: Request,
  ids: readonly string[],
  event: EventDraft,
): Promise<void> {
  await commitCombined(db, request, authScope, async (manager) => ({
    result: undefined,
    keys: ids.map(cacheKeyOf),
    events: [event],
    bytes: 0,
    async store() {
      await manager.query(
        'UPDATE auth.sessions SET revoked_at = now() WHERE id = ANY($1) AND revoked_at IS NULL',
        [ids],
      );
    },
  }));
}
