import { ProjectConfig, type ProjectAddress } from '../../../shared/contracts/projects.ts';
import type { DocumentKind } from '../../../shared/documents/document.ts';
import { samePath } from '../rules/checks.ts';
import { ProjectEntity } from '../schema.ts';
import { tenantDocument } from './tenant-document.ts';

export const projectKind: DocumentKind<ProjectAddress, ProjectConfig> = {
  ...tenantDocument<ProjectAddress, ProjectConfig>({
    resource: 'project',
    configType: 'project_config',
    entity: ProjectEntity,
    target: ({ project_id }) => project_id,
  }),
  schema: ProjectConfig,
  prepare: async () => undefined,
  settle: (draft, { project_id }) => ({ project_id, ...draft }),
  check: (next, { project_id }) => samePath('project_id', next.project_id, project_id),
};
