import type { EntityManager } from 'typeorm';
import type { ProjectConfig } from '../../../shared/contracts/projects.ts';
import { storedFrom, type Stored } from '../../../shared/documents/document-kind.ts';
import { ProjectEntity } from '../schema.ts';

/** The tenant's projects whose budget is to be enforced, by name. */
export async function enforcedProjects(
  manager: EntityManager,
  tenantId: string,
): Promise<Stored<ProjectConfig>[]> {
  const rows = await manager
    .createQueryBuilder(ProjectEntity, 'd')
    .where(`d.tenant_id = :tenantId AND d.document ->> 'enforce_budget' = 'true'`, { tenantId })
    .orderBy('d.id')
    .getMany();
  return rows.map((row) => storedFrom<ProjectConfig>(row));
}
