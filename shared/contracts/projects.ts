/** A tenant's cloud projects. Not a layer of the effective configuration: service instances name the project that they run in. */
import { Type, type Static } from 'typebox';
import { documentContracts } from './document-contracts.ts';
import { FreeForm, Identifier, strict, Text } from './fields.ts';
import { ofTenant, tenantListing, tenantPath, type TenantAddress } from './tenant-document.ts';

const fields = {
  name: Type.Optional(Text),
  region: Type.Optional(Text),
  environment: Type.Optional(Text),
  service_account_reference: Type.Optional(Type.String({ minLength: 1, maxLength: 500 })),
  budget: Type.Optional(
    Type.Object(
      {
        amount: Type.Number({ minimum: 0 }),
        currency: Type.String({ pattern: '^[A-Z]{3}$', description: 'ISO 4217' }),
      },
      strict,
    ),
  ),
  labels: Type.Optional(Type.Record(Type.String(), Type.String({ maxLength: 500 }))),
  project_config: Type.Optional(FreeForm),
};
export const ProjectConfig = Type.Object({ project_id: Identifier, ...fields }, strict);
export type ProjectConfig = Static<typeof ProjectConfig>;

export interface ProjectAddress extends TenantAddress {
  readonly project_id: string;
}
export const projectKey = ({ tenant_id, project_id }: ProjectAddress): string =>
  `project_config_${tenant_id}_${project_id}`;

const project = documentContracts({
  ...ofTenant,
  title: "a project's configuration",
  url: '/tenants/{tenant_id}/projects/{project_id}/config',
  path: { ...tenantPath, project_id: Identifier },
  document: ProjectConfig,
  body: Type.Object({ project_id: Type.Optional(Identifier), ...fields }, strict),
  key: projectKey,
});

export const projectContracts = {
  'tenant-config.projects.get': project.get,
  'tenant-config.projects.put': project.put,
  'tenant-config.projects.patch': project.patch,
  'tenant-config.projects.delete': project.delete,
  'tenant-config.projects.list': tenantListing(
    "the tenant's projects",
    '/tenants/{tenant_id}/projects',
    ProjectConfig,
  ),
} as const;
