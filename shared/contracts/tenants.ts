/** Tenants themselves. The platform's administrators create, rename, disable and enable them. */
import { Type } from 'typebox';
import { action, Page, page, tenantRoles } from './contract.ts';
import { CreatedAt, Email, strict, TenantId, Text, UpdatedAt, UserId } from './fields.ts';
import { MemberStatus } from './members.ts';
import { SignInPolicy } from './sign-in-policy.ts';
import { tenantPath } from './tenant-document.ts';

const Status = Type.Enum(['active', 'disabled'], {
  description: 'Nobody can act in a tenant that is disabled',
});
const Name = Text('What people call it', 'Acme');
const Tenant = Type.Object(
  {
    id: TenantId,
    name: Type.String({ description: 'What people call it', examples: ['Acme'] }),
    status: Status,
    sign_in_policy: SignInPolicy,
    created_at: CreatedAt,
    updated_at: UpdatedAt,
  },
  { ...strict, title: 'Tenant', description: 'A tenant' },
);
const platformAdmins = { level: 'platform_admin' } as const;

export const tenantContracts = {
  'tenant-config.tenants.create': action({
    summary: 'Create a tenant with its first administrator',
    rest: 'POST /tenants',
    access: platformAdmins,
    keyScope: 'platform:write',
    body: Type.Object(
      {
        name: Name,
        admin: Type.Object(
          {
            email: Email,
            password: Type.Optional(
              Type.String({
                maxLength: 1024,
                description:
                  'Initial password, used only where this makes the account; whoever has one is invited',
              }),
            ),
          },
          { ...strict, description: 'Its first administrator' },
        ),
      },
      strict,
    ),
    result: Type.Object(
      {
        ...Tenant.properties,
        admin: Type.Object(
          { user_id: UserId, email: Email, status: MemberStatus },
          { ...strict, description: 'Its first administrator' },
        ),
      },
      { ...strict, title: 'NewTenant', description: 'A tenant that was created' },
    ),
    response: 'created',
  }),
  'tenant-config.tenants.list': action({
    summary: 'List tenants',
    rest: 'GET /tenants',
    access: platformAdmins,
    keyScope: 'platform:read',
    query: {
      q: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 200,
          description: 'Only tenants with this in their name; upper and lower case are the same',
        }),
      ),
      ...page,
    },
    result: Page(Tenant),
    response: 'list',
  }),
  'tenant-config.tenants.get': action({
    summary: 'Read a tenant',
    rest: 'GET /tenants/{tenant_id}',
    access: { level: 'tenant_or_platform', roles: tenantRoles, services: true },
    keyScope: 'config:read',
    path: tenantPath,
    result: Tenant,
  }),
  /** Names no key to drop: every member's cached membership says the tenant's name and status, so the service adds their keys. */
  'tenant-config.tenants.patch': action({
    summary:
      'Rename, disable or enable a tenant (platform_admin); say how its members must sign in (its tenant_admin, too)',
    rest: 'PATCH /tenants/{tenant_id}',
    access: { level: 'tenant_or_platform', roles: ['tenant_admin'] },
    keyScope: 'platform:write',
    path: tenantPath,
    body: Type.Object(
      {
        name: Type.Optional(Name),
        status: Type.Optional(Status),
        sign_in_policy: Type.Optional(SignInPolicy),
      },
      {
        ...strict,
        minProperties: 1,
        title: 'TenantPatch',
        description: 'What changes of a tenant',
      },
    ),
    result: Tenant,
  }),
} as const;
