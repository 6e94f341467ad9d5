/**
 * Tenants themselves. The platform's administrators create, rename, disable, enable and delete
 * them.
 */
import { Type } from 'typebox';
import { PasswordKeys } from './auth-api-keys.ts';
import { inBody, type CallParams } from './consequences.ts';
import { action, internal, internalRead } from './contract.ts';
import { tenantRoles } from './roles.ts';
import { listing } from './envelopes.ts';
import {
  CreatedAt,
  DescribedObject,
  Email,
  Nullable,
  Optional,
  StrictObject,
  TenantId,
  Text,
  TitledObject,
  UpdatedAt,
  UserId,
} from './fields.ts';
import { MemberStatus } from './members.ts';
import { SignInPolicy } from './sign-in-policy.ts';
import { tenantPath } from './tenant-document.ts';

const Status = Type.Enum(['active', 'disabled'], {
  description: 'No one can act in a tenant that is disabled',
});
const Name = Text('Display name', 'Acme');
export const Tenant = TitledObject('Tenant', 'A tenant', {
  id: TenantId,
  name: Type.String({ description: 'Display name', examples: ['Acme'] }),
  status: Status,
  sign_in_policy: SignInPolicy,
  created_at: CreatedAt,
  updated_at: UpdatedAt,
  erase_at: Nullable(
    Type.String({
      format: 'date-time',
      maxLength: 40,
      description: 'When everything of it is erased; null unless its deletion was asked for',
      examples: ['2026-12-22T09:30:00.000Z'],
    }),
  ),
});
const platformAdmins = { level: 'platform_admin' } as const;

/**
 * The services that have rows of tenants, beside tenant-config itself and audit, which keeps a
 * tenant's hashes.
 */
export const erasingServices = ['auth', 'notifier'] as const;

/**
 * Emitted while tenants are being erased: the services ask which, erase what they have of them, and
 * confirm it.
 */
export const erasingEvent = 'tenants.erasing';

/**
 * The audit event that ends an erasure. What it makes of the tenant's chain is told at
 * services/audit/stores/erased-chains.ts.
 */
export const erasedAction = 'tenant.erased';

/** What erases a tenant's rows in one service, a bounded chunk at each call. */
const ErasedChunk = StrictObject({
  done: Type.Boolean({ description: 'Nothing of the tenant is left' }),
});

export const tenantContracts = {
  'tenant-config.tenants.create': action({
    summary: 'Create a tenant with its first administrator',
    rest: 'POST /tenants',
    access: platformAdmins,
    leadsTo: 'sign_in',
    keyScope: 'identity:manage',
    body: StrictObject({
      name: Name,
      admin: DescribedObject('Its first administrator', {
        email: Email,
        password: Optional.String({
          maxLength: 1024,
          description: 'Initial password of a new account; the owner of an existing one is invited',
        }),
      }),
    }),
    result: TitledObject('NewTenant', 'A tenant that was created', {
      ...Tenant.properties,
      admin: DescribedObject('Its first administrator', {
        user_id: UserId,
        email: Email,
        status: MemberStatus,
      }),
    }),
    response: 'created',
  }),
  'tenant-config.tenants.list': listing({
    summary: 'List tenants',
    rest: 'GET /tenants',
    access: platformAdmins,
    keyScope: 'platform:read',
    query: {
      q: Optional.String({
        minLength: 1,
        maxLength: 200,
        description: 'Only tenants with this in their name; upper and lower case are the same',
      }),
    },
    items: Tenant,
  }),
  'tenant-config.tenants.get': action({
    summary: 'Read a tenant',
    rest: 'GET /tenants/{tenant_id}',
    access: { level: 'tenant_or_platform', roles: tenantRoles, services: true },
    keyScope: 'config:read',
    path: tenantPath,
    result: Tenant,
  }),
  /**
   * Names no key to drop: every member's cached membership says the tenant's name and status, so
   * the service adds their keys.
   */
  'tenant-config.tenants.patch': action({
    summary:
      'Rename, disable or enable a tenant (platform_admin); say how its members must sign in (its tenant_admin, too)',
    rest: 'PATCH /tenants/{tenant_id}',
    access: { level: 'tenant_or_platform', roles: ['tenant_admin'] },
    leadsTo: {
      power: 'sign_in',
      otherwise: 'operations',
      where: 'it says how people must sign in',
      includes: (params: CallParams) => inBody(params, 'sign_in_policy') !== undefined,
    },
    keyScope: 'platform:write',
    path: tenantPath,
    body: StrictObject(
      {
        name: Type.Optional(Name),
        status: Type.Optional(Status),
        sign_in_policy: Type.Optional(SignInPolicy),
        end_password_keys: Optional.Boolean({
          description:
            'With sign_in_policy passkey_or_sso: end the API keys that people made who were signed in by password alone. Without it they stay good, and the answer lists them',
        }),
      },
      { minProperties: 1, title: 'TenantPatch', description: 'Changes to a tenant' },
    ),
    result: TitledObject(
      'PatchedTenant',
      'The tenant; `password_keys` where the change asks for passkey_or_sso, null elsewhere',
      { ...Tenant.properties, password_keys: Nullable(PasswordKeys) },
    ),
  }),
  'tenant-config.tenants.delete': action({
    summary:
      'Have a disabled tenant erased after TENANT_ERASE_AFTER_DAYS; enabling it until then takes that back',
    rest: 'DELETE /tenants/{tenant_id}',
    access: platformAdmins,
    leadsTo: 'removal',
    keyScope: 'platform:write',
    path: tenantPath,
    result: Tenant,
    response: 'accepted',
  }),
  'tenant-config.tenants.erase': internal({
    summary: 'Begin to erase a tenant that is due: from then on it exists for no one',
    path: tenantPath,
  }),
  'tenant-config.tenants.erasing': internalRead({
    summary: 'The tenants of which the services erase what they have',
    result: Type.Array(TenantId),
  }),
  'tenant-config.tenants.confirm-erased': internal({
    summary: 'Note that a service has nothing left of a tenant that is being erased',
    path: { ...tenantPath, service: Type.Enum(erasingServices) },
  }),
  'auth.tenants.erase': internal({
    summary: 'Erase sessions, invitations, keys and identity providers of a tenant',
    path: tenantPath,
    result: ErasedChunk,
  }),
  'notifier.tenants.erase': internal({
    summary: 'Erase approvals, deliveries, automations and recorded decisions of a tenant',
    path: tenantPath,
    result: ErasedChunk,
  }),
} as const;
