/**
 * What auth has of a tenant that is erased, whose people's accounts stay; and what it has of an
 * account that is erased.
 */
import type { EntityManager } from 'typeorm';
import { holderOf, removeSharesOf } from '../../../shared/commits/shares.ts';
import { apiKeyCacheKey } from '../../../shared/contracts/auth-api-keys.ts';
import { trustCacheKey } from '../../../shared/contracts/auth-workload.ts';
import { sessionCacheKey } from '../../../shared/contracts/auth.ts';

/** Sessions and keys that one change ends, each of which has a cache key. */
const mostAtOnce = 500;
/** Refresh tokens; a session that was continued for a month has thousands. */
const mostTokens = 5000;

/** Ids of sessions, of API keys, and of service accounts that trust somebody. */
export interface Credentials {
  readonly trusting: readonly string[];
  readonly tenantId: string;
  readonly sessions: readonly string[];
  readonly apiKeys: readonly string[];
}

export const cacheKeysOf = ({ sessions, apiKeys, trusting }: Credentials): string[] => [
  ...trusting.map((id) => trustCacheKey({ account_id: id })),
  ...sessions.map((id) => sessionCacheKey({ session_id: id })),
  ...apiKeys.map((id) => apiKeyCacheKey({ key_id: id })),
];

/**
 * What goes without a change, because no node keeps it in memory. Answers whether nothing of it is
 * left.
 */
export async function eraseUncached(manager: EntityManager, tenantId: string): Promise<boolean> {
  const [, tokens] = await manager.query<[unknown[], number]>(
    `DELETE FROM auth.refresh_tokens WHERE hash IN (
       SELECT t.hash FROM auth.refresh_tokens t JOIN auth.sessions s ON s.id = t.session_id
       WHERE s.tenant_id = $1 LIMIT $2)`,
    [tenantId, mostTokens],
  );
  await manager.query('DELETE FROM auth.invitations WHERE tenant_id = $1', [tenantId]);
  await manager.query('DELETE FROM auth.last_used_tenants WHERE tenant_id = $1', [tenantId]);
  // They sign in to nothing else.
  await manager.query('DELETE FROM auth.passkeys WHERE confined_to = $1', [tenantId]);
  await eraseProviders(manager, tenantId);
  return tokens < mostTokens;
}

/**
 * With the tenant's providers go the links of people to issuers that no other provider stands for.
 */
async function eraseProviders(manager: EntityManager, tenantId: string): Promise<void> {
  const [removed] = await manager.query<[{ issuer: string }[], number]>(
    'DELETE FROM auth.sso_providers WHERE tenant_id = $1 RETURNING issuer',
    [tenantId],
  );
  await manager.query(
    `DELETE FROM auth.sso_identities i WHERE i.issuer = ANY ($1)
       AND NOT EXISTS (SELECT FROM auth.sso_providers p WHERE p.issuer = i.issuer)`,
    [removed.map(({ issuer }) => issuer)],
  );
}

/**
 * Some of the tenant's. Read before the change that ends them, which every other change of accounts
 * waits for.
 */
export async function findCredentials(
  manager: EntityManager,
  tenantId: string,
): Promise<Credentials> {
  const idsIn = async (table: string, id = 'id'): Promise<string[]> => {
    const rows = await manager.query<{ id: string }[]>(
      `SELECT ${id} AS id FROM auth.${table} WHERE tenant_id = $1 LIMIT $2`,
      [tenantId, mostAtOnce],
    );
    return rows.map(({ id }) => id);
  };
  return {
    tenantId,
    sessions: await idsIn('sessions'),
    apiKeys: await idsIn('api_keys'),
    trusting: await idsIn('workload_trust', 'account_id'),
  };
}

/** Removes them as far as they are still the tenant's: a session may have continued in another. */
export async function removeCredentials(
  manager: EntityManager,
  { tenantId, sessions, apiKeys, trusting }: Credentials,
): Promise<void> {
  const [removed] = await manager.query<[{ id: string }[], number]>(
    'DELETE FROM auth.sessions WHERE id = ANY ($1) AND tenant_id = $2 RETURNING id',
    [sessions, tenantId],
  );
  await manager.query('DELETE FROM auth.refresh_tokens WHERE session_id = ANY ($1)', [
    removed.map(({ id }) => id),
  ]);
  await manager.query('DELETE FROM auth.api_keys WHERE id = ANY ($1)', [apiKeys]);
  await manager.query(
    'DELETE FROM auth.workload_trust WHERE tenant_id = $1 AND account_id = ANY ($2)',
    [tenantId, trusting],
  );
}

/**
 * The beginning, inside the change that ends all credentials: from then on nobody finds the
 * account, and its address is free. The rest may be done again and again until it is finished.
 */
export async function beginErasure(manager: EntityManager, userId: string): Promise<void> {
  await manager.query(
    `UPDATE auth.users SET email = 'erased ' || id, email_verified = false, display_name = NULL,
       password_hash = NULL, status = 'disabled', erasing_since = now() WHERE id = $1`,
    [userId],
  );
  await manager.query('DELETE FROM strata.actor_names WHERE actor_id = $1', [userId]);
}

/**
 * Locks an account that is nobody's: made for an invitation so many days ago, never proved, entered
 * or invited again. False where it is somebody's, or may become so.
 */
export async function lockUnclaimed(
  manager: EntityManager,
  userId: string,
  days: number,
): Promise<boolean> {
  const rows = await manager.query<unknown[]>(
    `SELECT FROM auth.users u
     WHERE id = $1 AND NOT email_verified AND password_hash IS NULL AND status = 'active'
       AND erasing_since IS NULL AND created_at < now() - make_interval(days => $2)
       AND NOT EXISTS (SELECT FROM auth.invitations i
         WHERE i.user_id = u.id AND i.expires_at >= now() - make_interval(days => $2))
       AND NOT EXISTS (SELECT FROM auth.sessions s WHERE s.user_id = u.id)
       AND NOT EXISTS (SELECT FROM auth.api_keys k WHERE k.user_id = u.id)
       AND NOT EXISTS (SELECT FROM auth.passkeys p WHERE p.user_id = u.id)
       AND NOT EXISTS (SELECT FROM auth.sso_identities l WHERE l.user_id = u.id)
     FOR UPDATE`,
    [userId, days],
  );
  return rows.length > 0;
}

/** Those that somebody began to erase, and that are not finished. */
export async function findErasing(manager: EntityManager, most: number): Promise<string[]> {
  const rows = await manager.query<{ id: string }[]>(
    'SELECT id FROM auth.users WHERE erasing_since IS NOT NULL ORDER BY erasing_since LIMIT $1',
    [most],
  );
  return rows.map(({ id }) => id);
}

/**
 * The end: the account itself, with what is left of it. Its credentials have ended, so no node has
 * any of it in memory.
 */
export async function endErasure(manager: EntityManager, userId: string): Promise<void> {
  await manager.query(
    `DELETE FROM auth.refresh_tokens WHERE session_id IN (
       SELECT id FROM auth.sessions WHERE user_id = $1)`,
    [userId],
  );
  for (const table of [
    'sessions',
    'last_used_tenants',
    'invitations',
    'api_keys',
    'passkeys',
    'sso_identities',
    'unannounced_admin',
  ])
    await manager.query(`DELETE FROM auth.${table} WHERE user_id = $1`, [userId]);
  // Once more, in case somebody signed in while it began.
  await manager.query('DELETE FROM strata.actor_names WHERE actor_id = $1', [userId]);
  await removeSharesOf(manager, holderOf({ type: 'user', id: userId }));
  await manager.query('DELETE FROM auth.users WHERE id = $1 AND erasing_since IS NOT NULL', [
    userId,
  ]);
}
