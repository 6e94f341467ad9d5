import { LessThanOrEqual, type DataSource, type EntityManager, type EntitySchema } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { revisionOf } from '../../../shared/commits/commit.ts';
import { storedOf } from '../documents/tenant-document.ts';
import {
  AgentEntity,
  HistoryEntity,
  RiskEntity,
  ServiceEntity,
  type DocumentRow,
} from '../schema.ts';

const kinds = {
  tenant_risk_config: RiskEntity,
  agent_config: AgentEntity,
  service_config: ServiceEntity,
} as const;
type Kind = keyof typeof kinds;

const current = async (manager: EntityManager, kind: Kind, tenantId: string, id: string) => {
  const row = await manager.findOneBy(kinds[kind] as EntitySchema<DocumentRow>, {
    tenant_id: tenantId,
    id,
  });
  return row && storedOf(row);
};

/** What the resource held at a revision or moment: the last entry of its history until then. */
const past = async (
  manager: EntityManager,
  kind: Kind,
  tenantId: string,
  id: string,
  revision: number,
) => {
  const row = await manager.findOne(HistoryEntity, {
    where: {
      tenant_id: tenantId,
      config_type: kind,
      resource_id: id,
      revision: LessThanOrEqual(revision),
    },
    order: { revision: 'DESC' },
  });
  return row && row.after !== null
    ? storedOf({
        document: row.after,
        revision: row.revision,
        updated_by: row.changed_by,
        updated_at: row.changed_at,
      } as DocumentRow)
    : null;
};

/** The revision that was the newest at a moment; 0 before the first. */
async function revisionAt(
  manager: EntityManager,
  tenantId: string,
  moment: string,
): Promise<number> {
  const row = await manager.findOne(HistoryEntity, {
    where: { tenant_id: tenantId, changed_at: LessThanOrEqual(new Date(moment)) },
    order: { revision: 'DESC' },
  });
  return row?.revision ?? 0;
}

export const layerActions = (db: DataSource) =>
  ({
    /** One snapshot: the documents are exactly those of the revision. */
    'tenant-config.layers': ({
      tenant_id: tenantId,
      agent_type: agentType,
      service_id: serviceId,
      as_of: asOf,
    }) =>
      db.transaction('REPEATABLE READ', async (manager) => {
        const newest = await revisionOf(manager, tenantScope(tenantId));
        const revision =
          asOf === undefined
            ? newest
            : Math.min(
                newest,
                typeof asOf === 'number' ? asOf : await revisionAt(manager, tenantId, asOf),
              );
        const layer = (kind: Kind, id: string | undefined) =>
          id === undefined
            ? null
            : asOf === undefined
              ? current(manager, kind, tenantId, id)
              : past(manager, kind, tenantId, id, revision);
        return {
          revision,
          newest,
          risk: await layer('tenant_risk_config', tenantId),
          agent: await layer('agent_config', agentType),
          service: await layer('service_config', serviceId),
        } as never;
      }),

    async 'tenant-config.agents.types'({ tenant_id }) {
      const rows = await db.manager.find(AgentEntity, {
        where: { tenant_id },
        select: { id: true },
        order: { id: 'ASC' },
      });
      return rows.map((row) => row.id);
    },
  }) satisfies Handlers;
