/** Who people are at issuers. */
import type { EntityManager } from 'typeorm';
import { SsoIdentityEntity, SsoProviderEntity } from '../../schema.ts';

/**
 * The issuers through which somebody may enter the account, in order. One without a provider any
 * more lets nobody in; as a discovery does, issuers are compared as addresses.
 */
export async function issuersKnowing(manager: EntityManager, userId: string): Promise<string[]> {
  const identities = await manager.findBy(SsoIdentityEntity, { user_id: userId });
  if (identities.length === 0) return [];
  const providers = await manager.find(SsoProviderEntity, { select: { issuer: true } });
  const served = new Set(providers.map(({ issuer }) => new URL(issuer).href));
  const issuers = new Set(identities.map(({ issuer }) => issuer));
  return [...issuers].filter((issuer) => served.has(new URL(issuer).href)).toSorted();
}
