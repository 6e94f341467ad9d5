/**
 * The contracts of a kind of document of which the platform has one and each tenant has one, such as
 * bounds: at `/config/<kind>` and `/tenants/{tenant_id}/config/<kind>`.
 */
import type { TProperties, TSchema } from 'typebox';
import type { ConsequenceName } from './consequences.ts';
import { documentContracts, named } from './document-contracts.ts';
import { ofPlatform, platformAdmins } from './platform-document.ts';
import type { KeyScope } from './roles.ts';
import { ofTenant, tenantPath, type TenantAddress } from './tenant-document.ts';

/** What a PUT takes is the document. */
interface Own<Document extends TSchema, Trial extends TProperties> {
  readonly document: Document;
  /** How its writes can be tried. */
  readonly trial: Trial;
}

export function documentsOfBoth<
  Kind extends string,
  OfPlatform extends TSchema,
  PlatformTrial extends TProperties,
  OfTenant extends TSchema,
  TenantTrial extends TProperties,
>(
  kind: Kind,
  platform: Own<OfPlatform, PlatformTrial>,
  tenant: Own<OfTenant, TenantTrial>,
  /** What writing it takes, where that is more than writing configuration. */
  power: { readonly leadsTo?: ConsequenceName; readonly writeScope?: KeyScope | null } = {},
) {
  const name = kind.replaceAll('-', '_');
  const platformKey = `${name}_platform`;
  const tenantKey = ({ tenant_id }: TenantAddress): string => `${name}_${tenant_id}`;
  const ofPlatforms = documentContracts({
    ...ofPlatform,
    ...power,
    ...platform,
    readers: { ...platformAdmins, services: true },
    readScope: 'platform:read',
    title: `the platform's ${name}`,
    url: `/config/${kind}`,
    path: {},
    body: platform.document,
    key: () => platformKey,
  });
  const ofTenants = documentContracts({
    ...ofTenant,
    ...power,
    ...tenant,
    title: `the tenant's ${name}`,
    url: `/tenants/{tenant_id}/config/${kind}`,
    path: tenantPath,
    body: tenant.document,
    key: tenantKey,
  });
  return {
    /** Under which the platform's is cached. */
    platformKey,
    tenantKey,
    ofPlatform: named(`global-config.${kind}`, ofPlatforms),
    ofTenant: named(`tenant-config.${kind}`, ofTenants),
  };
}
