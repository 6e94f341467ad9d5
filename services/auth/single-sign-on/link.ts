/** Links between identities of providers and accounts. */
import type { EntityManager } from 'typeorm';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { StrataError } from '../../../shared/errors.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { SsoIdentityEntity, type SessionRow, type SsoProviderRow } from '../schema.ts';
import { requireGoodFor, requireStrongest } from '../sessions/stores/sessions.ts';
import { identityEvent, recordEvent } from '../stores/audit-events.ts';
import { requireRoom } from '../stores/room.ts';
import type { SsoClaims } from './rules/sso-account.ts';

export const isLinked = (
  manager: EntityManager,
  { issuer, subject }: Pick<SsoClaims, 'issuer' | 'subject'>,
  userId: string,
): Promise<boolean> => manager.existsBy(SsoIdentityEntity, { issuer, subject, user_id: userId });

/**
 * Links the identity with the account; false where it is already. Throws `conflict` where it is
 * linked with another by now.
 */
export async function linkIdentity(
  manager: EntityManager,
  { issuer, subject }: SsoClaims,
  userId: string,
  provider: SsoProviderRow,
  request: Request,
  settings: Settings,
): Promise<boolean> {
  const inserted = await manager.query<unknown[]>(
    'INSERT INTO auth.sso_identities (issuer, subject, user_id, created_at) VALUES ($1, $2, $3, now()) ON CONFLICT DO NOTHING RETURNING user_id',
    [issuer, subject, userId],
  );
  if (inserted.length > 0) {
    const room = {
      setting: 'provider_links_per_person',
      what: 'links to identity providers',
      advice: 'Sign in with one of those.',
    } as const;
    await requireRoom(manager, userId, settings, room, async () => {
      const links = await manager.countBy(SsoIdentityEntity, { user_id: userId });
      return links - inserted.length;
    });
    const payload = { provider_id: provider.id, issuer, subject };
    const event = identityEvent('auth.sso_linked', userId, payload);
    await recordEvent(manager, event, request);
    return true;
  }
  const isOwn = await isLinked(manager, { issuer, subject }, userId);
  if (!isOwn)
    throw new StrataError('conflict', 'The identity was linked with another account since.');
  return false;
}

/**
 * Throws where this session may not make the account enterable through the provider: by a password
 * alone where there is something stronger, or past the tenant that the session is good for.
 */
export async function requireLinkable(
  manager: EntityManager,
  session: SessionRow,
  provider: SsoProviderRow,
): Promise<void> {
  requireGoodFor(session.confined_to, provider.tenant_id);
  await requireStrongest(manager, session);
}
