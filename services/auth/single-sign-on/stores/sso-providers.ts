/** Rows of identity providers; their client secrets are sealed in the row. */
import type { EntityManager } from 'typeorm';
import { createVault, type Vault } from '../../../../shared/security/vault.ts';
import type { Settings } from '../../../../shared/settings/settings.ts';
import type { RegisteredClient } from '../oidc/discovery.ts';
import { domainOf } from '../rules/sso-account.ts';
import { SsoProviderEntity, type SsoProviderRow } from '../../schema.ts';

const vaultOf = (settings: Settings): Vault => createVault(settings, 'sso client secret');
/** A sealed secret opens only for the provider it was given to, and is sent to no other issuer. */
const contextOf = ({ id, issuer }: Pick<SsoProviderRow, 'id' | 'issuer'>): string =>
  JSON.stringify(['sso provider', id, issuer]);

export const sealClientSecret = (
  secret: string,
  provider: Pick<SsoProviderRow, 'id' | 'issuer'>,
  settings: Settings,
): string => vaultOf(settings).seal(secret, contextOf(provider));

/** Strata as the provider knows it, with the client secret open. */
export const clientOf = (provider: SsoProviderRow, settings: Settings): RegisteredClient => ({
  provider_id: provider.id,
  issuer: provider.issuer,
  client_id: provider.client_id,
  client_secret: vaultOf(settings).open(provider.client_secret, contextOf(provider)),
});

export const findEnabledProvider = (
  manager: EntityManager,
  id: string,
): Promise<SsoProviderRow | null> => manager.findOneBy(SsoProviderEntity, { id, enabled: true });

/**
 * The same, locked until the new session is committed: whoever disables it waits for that, and then
 * ends this session with the others.
 */
export const lockEnabledProvider = (
  manager: EntityManager,
  id: string,
): Promise<SsoProviderRow | null> =>
  manager.findOne(SsoProviderEntity, {
    where: { id, enabled: true },
    lock: { mode: 'pessimistic_read' },
  });

/** Enabled providers of the address's domain, the oldest first. */
export const findProvidersOfAddress = (
  manager: EntityManager,
  email: string,
): Promise<SsoProviderRow[]> =>
  manager
    .createQueryBuilder(SsoProviderEntity, 'p')
    .where('p.enabled AND p.domains @> CAST(:domains AS jsonb)', {
      domains: JSON.stringify([{ domain: domainOf(email) }]),
    })
    .orderBy({ 'p.created_at': 'ASC', 'p.id': 'ASC' })
    .getMany();

/** Domains whose owner was checked for an enabled provider of the tenant's own. */
export async function findVerifiedDomains(
  manager: EntityManager,
  tenantId: string,
): Promise<string[]> {
  const rows = await manager.query<{ domain: string }[]>(
    `SELECT DISTINCT d->>'domain' AS domain FROM auth.sso_providers p, jsonb_array_elements(p.domains) d
     WHERE p.enabled AND p.tenant_id = $1 AND (d->>'verified')::boolean ORDER BY domain`,
    [tenantId],
  );
  return rows.map(({ domain }) => domain);
}

/**
 * Whether an enabled provider is known to own the address's domain: of any tenant, or of this one
 * alone. What such a provider says of the address is as good as the person's own word.
 */
export const isDomainVerified = (
  manager: EntityManager,
  email: string,
  tenantId?: string,
): Promise<boolean> =>
  manager
    .createQueryBuilder(SsoProviderEntity, 'p')
    .where('p.enabled AND p.domains @> CAST(:domains AS jsonb)', {
      domains: JSON.stringify([{ domain: domainOf(email), verified: true }]),
    })
    .andWhere(tenantId === undefined ? 'TRUE' : 'p.tenant_id = :tenantId', { tenantId })
    .getExists();

/**
 * One of the provider's domains that a provider of another tenant has; undefined where there is
 * none.
 */
export async function findTakenDomain(
  manager: EntityManager,
  { id, tenant_id: tenant, domains }: SsoProviderRow,
): Promise<string | undefined> {
  const [taken] = await manager.query<{ domain: string }[]>(
    `SELECT d->>'domain' AS domain FROM auth.sso_providers p, jsonb_array_elements(p.domains) d
     WHERE p.id <> $1 AND p.tenant_id IS DISTINCT FROM $2 AND d->>'domain' = ANY($3) LIMIT 1`,
    [id, tenant, domains.map(({ domain }) => domain)],
  );
  return taken?.domain;
}
