/** What other changes need to know of an account's API keys, and do to them. */
import type { EntityManager } from 'typeorm';
import type { Outcome } from '../../../../shared/commits/commit.ts';
import { apiKeyCacheKey } from '../../../../shared/contracts/auth-api-keys.ts';
import { ApiKeyEntity } from '../../schema.ts';

/**
 * The cache keys of an account's API keys, to be dropped with a change of the account: they hold
 * its status and platform roles.
 */
export async function cacheKeysOfApiKeys(
  manager: EntityManager,
  userId: string,
): Promise<string[]> {
  const rows = await manager.find(ApiKeyEntity, {
    where: { user_id: userId },
    select: { id: true },
  });
  return rows.map(({ id }) => apiKeyCacheKey({ key_id: id }));
}

/**
 * Ends an account's API keys, inside the caller's change. Gives the cache keys to drop with it, one
 * a key.
 */
export async function endApiKeysOf(manager: EntityManager, userId: string): Promise<string[]> {
  const [ended] = await manager.query<[{ id: string }[], number]>(
    'DELETE FROM auth.api_keys WHERE user_id = $1 RETURNING id',
    [userId],
  );
  return ended.map(({ id }) => apiKeyCacheKey({ key_id: id }));
}

/** Ends those in a tenant that the person has left, whose chain has them as it has the removal. */
export async function endApiKeysIn(
  manager: EntityManager,
  userId: string,
  tenantId: string,
): Promise<Outcome<undefined>> {
  const [ended] = await manager.query<[{ id: string; name: string }[], number]>(
    'DELETE FROM auth.api_keys WHERE user_id = $1 AND tenant_id = $2 RETURNING id, name',
    [userId, tenantId],
  );
  return {
    result: undefined,
    keys: ended.map(({ id }) => apiKeyCacheKey({ key_id: id })),
    events: ended.map(({ id, name }) => ({
      action: 'auth.api_key_ended',
      tenant_id: tenantId,
      target: userId,
      payload: { key_id: id, name, because: 'membership_ended' },
    })),
  };
}
