import type { Static } from 'typebox';
import { ProjectDocument } from '../../../shared/contracts/tenant-config.ts';
import type { DocumentKind } from '../../../shared/documents/document.ts';
import { samePath } from '../rules/checks.ts';
import { ProjectEntity } from '../schema.ts';
import { tenantDocument, type TenantParams } from './tenant-document.ts';

export type Project = Static<typeof ProjectDocument>;
type Params = TenantParams & { readonly project_id: string };

export const projectKind: DocumentKind<Params, Project> = {
  ...tenantDocument<Params, Project>({
    resource: 'project',
    configType: 'project_config',
    entity: ProjectEntity,
    target: ({ project_id }) => project_id,
  }),
  schema: ProjectDocument,
  prepare: async () => undefined,
  settle: (draft, { project_id }) => ({ project_id, ...draft }),
  check: (next, { project_id }) => samePath('project_id', next.project_id, project_id),
};
