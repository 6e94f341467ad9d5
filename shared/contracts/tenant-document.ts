/** What the contracts of a tenant's configuration documents have in common. */
import type { TSchema } from 'typebox';
import { dryRun, type Access } from './contract.ts';
import { type TenantRole } from './roles.ts';
import { listing } from './envelopes.ts';
import { TenantId } from './fields.ts';
import { tenantScope, type RevisionScope } from './revision-scopes.ts';

export const tenantPath = { tenant_id: TenantId };
export interface TenantAddress {
  readonly tenant_id: string;
}

/** The tenant roles that read its configuration. A viewer sees the effective configuration only. */
export const configurationReaders = [
  'tenant_admin',
  'operator',
  'reviewer',
] as const satisfies readonly TenantRole[];
/** Those that run things: they write service instances, propose changes and start automations. */
export const operators = ['tenant_admin', 'operator'] as const satisfies readonly TenantRole[];
export const tenantReaders: Access = {
  level: 'tenant',
  roles: configurationReaders,
  services: true,
};
export const tenantAdmins = { level: 'tenant', roles: ['tenant_admin'] } as const satisfies Access;

/**
 * For `documentContracts`: who reads and writes a tenant's document, unless its file says
 * otherwise, and what its revisions count.
 */
export const ofTenant = {
  readers: tenantReaders,
  writers: tenantAdmins,
  writeScope: 'config:write',
  leadsTo: 'configuration',
  trial: dryRun,
  revisionScopes: ({ tenant_id }: TenantAddress): RevisionScope[] => [tenantScope(tenant_id)],
} as const;

/** All documents of one kind that the tenant has, a page at a time. */
export const tenantListing = <Document extends TSchema>(
  title: string,
  url: `/${string}`,
  document: Document,
) =>
  listing({
    summary: `List ${title}`,
    rest: `GET ${url}`,
    access: tenantReaders,
    keyScope: 'config:read',
    path: tenantPath,
    items: document,
  });
