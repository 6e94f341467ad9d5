/**
 * A tenant's cloud projects. Not a layer of the effective configuration: service instances name the
 * project that they run in.
 */
import { Type, type Static } from 'typebox';
import { documentContracts, named } from './document-contracts.ts';
import {
  described,
  FreeForm,
  Labels,
  Optional,
  patterns,
  ProjectId,
  Text,
  TitledObject,
} from './fields.ts';
import { ofTenant, tenantListing, tenantPath, type TenantAddress } from './tenant-document.ts';

const fields = {
  name: Type.Optional(Text('Display name', 'Shop')),
  region: Type.Optional(Text('Region that it runs in', 'europe-west1')),
  environment: Type.Optional(
    Text('Such as production; budgets and freezes can name it', 'production'),
  ),
  service_account_reference: Optional.String({
    minLength: 1,
    maxLength: 500,
    description: "Where the cloud's credentials are kept; never the credentials",
  }),
  budget: Type.Optional(
    TitledObject('Budget', 'What it may cost', {
      amount: Type.Number({ minimum: 0, description: 'Amount', examples: [1000] }),
      currency: Type.String({
        pattern: patterns.currency,
        description: 'ISO 4217',
        examples: ['EUR'],
      }),
    }),
  ),
  enforce_budget: Optional.Boolean({
    description:
      'Automation on its instances may cost no more than `budget` in a month (UTC); false by default, and then it is information',
  }),
  labels: Type.Optional(Labels('Labels of the cloud', { team: 'checkout' })),
  project_config: Type.Optional(described(FreeForm, 'Whatever else there is, kept as it is')),
};
export const ProjectConfig = TitledObject('ProjectConfig', "One of a tenant's cloud projects", {
  project_id: ProjectId,
  ...fields,
});
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
  path: { ...tenantPath, project_id: ProjectId },
  document: ProjectConfig,
  body: TitledObject('ProjectConfigBody', 'A project, as written', {
    project_id: Type.Optional(ProjectId),
    ...fields,
  }),
  key: projectKey,
});

export const projectContracts = {
  ...named('tenant-config.projects', project),
  'tenant-config.projects.list': tenantListing(
    "the tenant's projects",
    '/tenants/{tenant_id}/projects',
    ProjectConfig,
  ),
} as const;
