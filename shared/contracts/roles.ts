/** The roles of a tenant's members, and the rights of API keys. */
import { Type } from 'typebox';

export const tenantRoles = ['tenant_admin', 'operator', 'reviewer', 'reverter', 'viewer'] as const;
export type TenantRole = (typeof tenantRoles)[number];
/** Who reads effective values: all but those who only take changes back. */
export const valueReaders = [
  'tenant_admin',
  'operator',
  'reviewer',
  'viewer',
] as const satisfies readonly TenantRole[];
export const TenantRole = Type.Enum(tenantRoles, {
  title: 'TenantRole',
  description:
    '`viewer` reads effective configurations; `reviewer` reads the configuration, too, and decides approvals, and writes nothing; `operator` also runs services and automations; `reverter` reads the history and rolls back, and does nothing else; `tenant_admin` may do everything in the tenant',
});

/** Of a member or service account. */
export const GivenRoles = Type.Array(TenantRole, {
  minItems: 1,
  maxItems: tenantRoles.length,
  uniqueItems: true,
  description: 'Roles in the tenant',
});

/** What an API key may be allowed to do. */
export const keyScopes = [
  'config:read',
  'config:write',
  'approvals:read',
  'approvals:write',
  'approvals:decide',
  'approvals:configure',
  'automations:read',
  'automations:write',
  'decide:on_behalf',
  'members:read',
  'members:write',
  'audit:read',
  'platform:read',
  'platform:write',
  'auth:self',
  'identity:manage',
  'scim:provision',
] as const;
export type KeyScope = (typeof keyScopes)[number];
export const KeyScope = Type.Enum(keyScopes, {
  title: 'KeyScope',
  description: 'What an API key may be allowed to do; each operation names the scope that it needs',
});
