/** A tenant's cloud projects, one document each. */
import { ProjectConfig, type ProjectAddress } from '../../../shared/contracts/projects.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { sameAsInPath } from '../rules/checks.ts';
import { ProjectEntity } from '../schema.ts';
import { inTable } from './tenant-document.ts';

const resourceId = ({ project_id }: ProjectAddress): string => project_id;

export const projectKind: DocumentKind<ProjectAddress, ProjectConfig> = {
  ...inTable(ProjectEntity, {
    auditName: 'project',
    configType: 'project_config',
    actions: 'tenant-config.projects',
    resourceId,
  }),
  schema: ProjectConfig,
  prepare: async () => undefined,
  complete: (draft, { project_id }) => ({ project_id, ...draft }),
  check: ({ next, address }) => ({ refused: sameAsInPath('project_id', next, address) }),
};
