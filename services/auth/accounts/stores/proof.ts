/**
 * The proof that an address is its account's. An account belongs to the person who proved its
 * address: until then somebody else may have held it, so the first proof ends whatever could be
 * used to enter it.
 */
import type { EntityManager } from 'typeorm';
import type { EventDraft } from '../../../../shared/commits/commit.ts';
import { PasskeyEntity, SsoIdentityEntity, UserEntity, type UserRow } from '../../schema.ts';
import { endApiKeysOf } from '../../api-keys/stores/api-keys.ts';
import { identityEvent } from '../../stores/audit-events.ts';
import { endSessionsOf } from '../../sessions/stores/sessions.ts';

/** How an address was proved, as the audit event says it. */
export type Proof = 'invitation' | 'password_reset' | 'sso';

/**
 * Ends everything that the account can be entered with, inside the caller's change: password,
 * sessions, API keys, passkeys and links to identity providers. Links of the past that reset the
 * password are void with it. `user` is locked for the change.
 */
export async function endCredentials(manager: EntityManager, user: UserRow) {
  const owned = { user_id: user.id };
  const sessionKeys = await endSessionsOf(manager, user.id);
  const apiKeyKeys = await endApiKeysOf(manager, user.id);
  const passkeys = await manager.delete(PasskeyEntity, owned);
  const links = await manager.delete(SsoIdentityEntity, owned);
  await manager.update(
    UserEntity,
    { id: user.id },
    { password_hash: null, credentials_ended_at: () => 'now()' },
  );
  return {
    keys: [...sessionKeys, ...apiKeyKeys],
    /** How many of each there were, for the audit event. */
    counts: {
      passwords: user.password_hash === null ? 0 : 1,
      sessions: sessionKeys.length,
      api_keys: apiKeyKeys.length,
      passkeys: passkeys.affected ?? 0,
      provider_links: links.affected ?? 0,
    },
  };
}

/**
 * Notes inside the caller's change that the person has proved the address. The first proof ends
 * what was before it; every later one changes nothing. `user` is locked for the change.
 */
export async function proveAddress(
  manager: EntityManager,
  user: UserRow,
  proof: Proof,
): Promise<{ readonly keys: readonly string[]; readonly events: readonly EventDraft[] }> {
  if (user.email_verified) return { keys: [], events: [] };
  const { keys, counts } = await endCredentials(manager, user);
  await manager.update(UserEntity, { id: user.id }, { email_verified: true });
  const payload = { proof, ended: counts };
  return { keys, events: [identityEvent('auth.address_proved', user.id, payload)] };
}
