/**
 * What config-resolver asks of a tenant: its layers and bounds, as they are or were, and the agent
 * types it has configured.
 */
import type { DataSource, EntityManager } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { namesIn } from '../../../shared/commits/actor-names.ts';
import { revisionOf, revisionsOf } from '../../../shared/commits/commit.ts';
import type { AgentConfig } from '../../../shared/contracts/agents.ts';
import type { Bounds } from '../../../shared/contracts/bounds.ts';
import type { Budgets } from '../../../shared/contracts/budgets.ts';
import type { Freezes } from '../../../shared/contracts/freezes.ts';
import { platformScope, tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import type { ProjectLimits } from '../../../shared/contracts/layers.ts';
import type { ProjectConfig } from '../../../shared/contracts/projects.ts';
import type { RiskConfig } from '../../../shared/contracts/risk.ts';
import type { ServiceInstance } from '../../../shared/contracts/service-instances.ts';
import { storedFrom, type Stored } from '../../../shared/documents/document-kind.ts';
import { leftBehind } from '../../../shared/documents/history.ts';
import { StrataError } from '../../../shared/errors.ts';
import { nearestNames } from '../../../shared/nearest.ts';
import {
  AgentEntity,
  BoundsEntity,
  BudgetsEntity,
  FreezesEntity,
  ProjectEntity,
  RiskEntity,
  ServiceInstanceEntity,
  type DocumentRow,
} from '../schema.ts';
import { enforcedProjects } from '../stores/enforced-projects.ts';
import {
  documentAt,
  documentsAt,
  documentsThen,
  keyAuthors,
  momentOf,
  revisionAt,
} from '../stores/history.ts';
import { readPlaces } from '../stores/places.ts';
import { readValuesByKey } from '../stores/values-by-key.ts';

/** The documents that the effective configuration is made of, by their names in the history. */
interface LayerDocuments {
  tenant_risk_config: RiskConfig;
  agent_config: AgentConfig;
  service_config: ServiceInstance;
  bounds_config: Bounds;
  budgets_config: Budgets;
  freezes_config: Freezes;
  project_config: ProjectConfig;
}
const entities = {
  tenant_risk_config: RiskEntity,
  agent_config: AgentEntity,
  service_config: ServiceInstanceEntity,
  bounds_config: BoundsEntity,
  budgets_config: BudgetsEntity,
  freezes_config: FreezesEntity,
  project_config: ProjectEntity,
} as const satisfies Record<keyof LayerDocuments, unknown>;

/** Of these a tenant has one each, under its id. */
const ofTenant = [
  'tenant_risk_config',
  'bounds_config',
  'budgets_config',
  'freezes_config',
] as const satisfies readonly (keyof LayerDocuments)[];

/** One layer as it is now; null where nothing is stored. */
async function currentLayer<Type extends keyof LayerDocuments>(
  manager: EntityManager,
  configType: Type,
  tenantId: string,
  resourceId: string,
): Promise<Stored<LayerDocuments[Type]> | null> {
  const row = await manager.findOneBy(entities[configType], {
    tenant_id: tenantId,
    id: resourceId,
  });
  return row && storedFrom<LayerDocuments[Type]>(row);
}

/** Of the documents of one kind that are read together. */
const maxMebibytes = 16;

/** Those of these layers that there are. Throws 413 before more is sent than an answer may have. */
async function currentLayers<Type extends keyof LayerDocuments>(
  manager: EntityManager,
  configType: Type,
  tenantId: string,
  resourceIds: string[],
): Promise<Stored<LayerDocuments[Type]>[]> {
  if (resourceIds.length === 0) return [];
  const { schema, tableName } = entities[configType].options;
  const rows = await manager.query<(DocumentRow & { readonly bytes: number })[]>(
    // What is too large as it is stored, compressed, is not read to find that out.
    `WITH stored AS (
       SELECT sum(pg_column_size(document)) AS bytes FROM ${schema}.${tableName} WHERE tenant_id = $1 AND id = ANY ($2)
     )
     SELECT * FROM (
       SELECT d.*, row_number() OVER () AS place, (sum(
         CASE WHEN stored.bytes > $3 THEN pg_column_size(document) ELSE octet_length(document::text) END
       ) OVER ())::float8 AS bytes
       FROM ${schema}.${tableName} d, stored WHERE tenant_id = $1 AND id = ANY ($2)
     ) AS found WHERE bytes <= $3 OR place = 1`,
    [tenantId, resourceIds, maxMebibytes * 1024 * 1024],
  );
  if (rows.length === 1 && rows[0]!.bytes > maxMebibytes * 1024 * 1024)
    throw new StrataError(
      'payload_too_large',
      `These documents are larger than ${maxMebibytes} MiB in all. Ask for fewer at a time.`,
    );
  return rows.map((row) => storedFrom<LayerDocuments[Type]>(row));
}

/** Without what people keep there. */
function limitsOfProject({ document, ...stored }: Stored<ProjectConfig>): Stored<ProjectLimits> {
  const { project_id, environment, budget, enforce_budget } = document;
  return {
    ...stored,
    document: {
      project_id,
      ...(environment !== undefined && { environment }),
      ...(budget !== undefined && { budget }),
      ...(enforce_budget !== undefined && { enforce_budget }),
    },
  };
}

/** Throws 413 before so much is read. */
async function refuseTooLarge(manager: EntityManager, tenantId: string): Promise<void> {
  const [agents] = await manager.query<{ bytes: number }[]>(
    `SELECT COALESCE(sum(octet_length(document::text)), 0)::float8 AS bytes
     FROM tenant_config.agent_configurations WHERE tenant_id = $1`,
    [tenantId],
  );
  if (agents!.bytes > maxMebibytes * 1024 * 1024)
    throw new StrataError(
      'payload_too_large',
      `The agent configurations of the tenant are larger than ${maxMebibytes} MiB together. Ask for each by its agent_type.`,
    );
}

/**
 * The revision that a caller means by `as_of`, which may be one to come or a moment, and its
 * moment; null for now.
 */
async function wantedRevision(
  manager: EntityManager,
  tenantId: string,
  asOf: number | string | undefined,
  newest: number,
) {
  if (asOf === undefined) return { revision: newest, at: null };
  if (typeof asOf === 'string') {
    const revision = await revisionAt(manager, tenantId, new Date(asOf));
    return { revision: Math.min(newest, revision), at: asOf };
  }
  if (asOf > newest) return { revision: newest, at: null };
  const moment = await momentOf(manager, tenantId, asOf);
  return { revision: asOf, at: moment?.toISOString() ?? null };
}

export const layerActions = (db: DataSource) => ({
  ...snapshotActions(db),
  ...pastActions(db),
  ...lookupActions(db),
});

const snapshotActions = (db: DataSource) =>
  ({
    /**
     * One snapshot, at a moment when the platform had its revision. The statements are the same,
     * however many names there are.
     */
    'tenant-config.layers.now': ({ tenant_id: tenantId, agent_types = [], service_ids = [] }) =>
      db.transaction('REPEATABLE READ', async (manager) => {
        const scope = tenantScope(tenantId);
        const revisions = await revisionsOf(manager, [scope, platformScope]);
        const revision = revisions[scope]!;
        const risk = await currentLayer(manager, 'tenant_risk_config', tenantId, tenantId);
        const agents = await currentLayers(manager, 'agent_config', tenantId, agent_types);
        const services = await currentLayers(manager, 'service_config', tenantId, service_ids);
        const bounds = await currentLayer(manager, 'bounds_config', tenantId, tenantId);
        const budgets = await currentLayer(manager, 'budgets_config', tenantId, tenantId);
        const freezes = await currentLayer(manager, 'freezes_config', tenantId, tenantId);
        const ids = new Set(services.flatMap(({ document }) => document.project_id ?? []));
        const projects = await currentLayers(manager, 'project_config', tenantId, [...ids]);
        const all = [risk, bounds, ...agents, ...services];
        const authors = all.flatMap((each) => each?.updated_by ?? []);
        const names = await namesIn(manager, tenantId, authors);
        const named = <Document>(stored: Stored<Document>): Stored<Document> => ({
          ...stored,
          updated_by_name: names.of(stored.updated_by),
        });
        return {
          value: {
            revision,
            platform_revision: revisions[platformScope]!,
            risk: risk && named(risk),
            agents: agents.map((each) => named(each)),
            services: services.map((each) => named(each)),
            bounds: bounds && named(bounds),
            budgets,
            freezes,
            projects: projects.map(limitsOfProject),
          },
          asOf: { [scope]: revision },
        };
      }),

    /** One snapshot: the documents are exactly those of the revision. */
    'tenant-config.layers': (params) =>
      db.transaction('REPEATABLE READ', async (manager) => {
        const { tenant_id: tenantId, agent_type, service_id, as_of } = params;
        const newest = await revisionOf(manager, tenantScope(tenantId));
        const { revision, at } = await wantedRevision(manager, tenantId, as_of, newest);
        const layer = async <Type extends keyof LayerDocuments>(
          configType: Type,
          resourceId: string | undefined,
        ): Promise<Stored<LayerDocuments[Type]> | null> => {
          if (resourceId === undefined) return null;
          if (as_of === undefined) return currentLayer(manager, configType, tenantId, resourceId);
          return documentAt(manager, { tenantId, configType, resourceId }, revision);
        };
        const risk = await layer('tenant_risk_config', tenantId);
        const agent = await layer('agent_config', agent_type);
        const service = await layer('service_config', service_id);
        const bounds = await layer('bounds_config', tenantId);
        const budgets = await layer('budgets_config', tenantId);
        const freezes = await layer('freezes_config', tenantId);
        const project = await layer('project_config', service?.document.project_id);
        const authors = [risk, agent, service, bounds].flatMap((each) => each?.updated_by ?? []);
        const names = await namesIn(manager, tenantId, authors);
        const named = <Document>(stored: Stored<Document> | null): Stored<Document> | null =>
          stored && { ...stored, updated_by_name: names.of(stored.updated_by) };
        return {
          revision,
          newest,
          at,
          risk: named(risk),
          agent: named(agent),
          service: named(service),
          bounds: named(bounds),
          budgets,
          freezes,
          project: project && limitsOfProject(project),
        };
      }),

    /** One snapshot as well: all agent types see the same risk limits and bounds. */
    'tenant-config.layers.by-agent': ({ tenant_id: tenantId, as_of: asOf = Infinity }) =>
      db.transaction('REPEATABLE READ', async (manager) => {
        const newest = await revisionOf(manager, tenantScope(tenantId));
        if (asOf >= newest) {
          await refuseTooLarge(manager, tenantId);
          const agents = await manager.find(AgentEntity, {
            where: { tenant_id: tenantId },
            order: { id: 'ASC' },
          });
          return {
            revision: newest,
            newest,
            risk: await currentLayer(manager, 'tenant_risk_config', tenantId, tenantId),
            agents: agents.map((row) => storedFrom<AgentConfig>(row)),
            bounds: await currentLayer(manager, 'bounds_config', tenantId, tenantId),
          };
        }
        const risk = { tenantId, configType: 'tenant_risk_config', resourceId: tenantId } as const;
        const agents = { tenantId, configType: 'agent_config' } as const;
        const bounds = { tenantId, configType: 'bounds_config', resourceId: tenantId } as const;
        return {
          revision: asOf,
          newest,
          risk: await documentAt<RiskConfig>(manager, risk, asOf),
          agents: await documentsAt<AgentConfig>(manager, agents, asOf),
          bounds: await documentAt<Bounds>(manager, bounds, asOf),
        };
      }),
  }) satisfies Handlers;

const pastActions = (db: DataSource) =>
  ({
    /** One statement: a replay asks for very many revisions. */
    async 'tenant-config.layers.then'(params) {
      const { tenant_id, as_of, agent_types = [], service_ids = [], project_ids = [] } = params;
      const named = (configType: keyof LayerDocuments, ids: readonly string[]) =>
        ids.map((resourceId) => ({ configType, resourceId }));
      const names = [
        ...ofTenant.flatMap((configType) => named(configType, [tenant_id])),
        ...named('agent_config', agent_types),
        ...named('service_config', service_ids),
      ];
      const rows = await documentsThen(db, tenant_id, names, project_ids, as_of);
      const all = <Type extends keyof LayerDocuments>(configType: Type) =>
        rows
          .filter((row) => row.config_type === configType)
          .map((row) => leftBehind<LayerDocuments[Type]>(row)!);
      return {
        revision: as_of,
        risk: all('tenant_risk_config')[0] ?? null,
        agents: all('agent_config'),
        services: all('service_config'),
        bounds: all('bounds_config')[0] ?? null,
        budgets: all('budgets_config')[0] ?? null,
        freezes: all('freezes_config')[0] ?? null,
        projects: all('project_config').map(limitsOfProject),
      };
    },
  }) satisfies Handlers;

const lookupActions = (db: DataSource) =>
  ({
    async 'tenant-config.moment'({ tenant_ids: ids }) {
      const scopes = [...ids.map(tenantScope), platformScope];
      const rows = await db.manager.query<
        { at: number; scope: string | null; revision: number; changed_at: number }[]
      >(
        `SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS at, r.scope, r.revision,
           extract(epoch FROM r.changed_at)::float8 * 1000 AS changed_at
         FROM (SELECT) AS now LEFT JOIN strata.revisions r ON r.scope = ANY($1)`,
        [scopes],
      );
      const found = new Map(rows.map((row) => [row.scope, row]));
      const ofPlatform = found.get(platformScope);
      return {
        at: rows[0]!.at,
        platform: ofPlatform?.revision ?? 0,
        platform_changed_at: ofPlatform?.changed_at ?? 0,
        tenants: Object.fromEntries(
          ids.map((id) => [id, found.get(tenantScope(id))?.revision ?? 0]),
        ),
      };
    },

    async 'tenant-config.layers.authors'({ tenant_id: tenantId, body: { places, revision } }) {
      const authors = await keyAuthors(db.manager, tenantId, places, revision);
      const ids = authors.flatMap((each) => each?.updated_by ?? []);
      const names = await namesIn(db.manager, tenantId, ids);
      return {
        authors: authors.map(
          (each) => each && { ...each, updated_by_name: names.of(each.updated_by) },
        ),
      };
    },

    'tenant-config.projects.enforced': ({ tenant_id: tenantId }) =>
      db.transaction('REPEATABLE READ', async (manager) => {
        const scope = tenantScope(tenantId);
        const revision = await revisionOf(manager, scope);
        const items = (await enforcedProjects(manager, tenantId)).map(limitsOfProject);
        return { value: { items }, asOf: { [scope]: revision } };
      }),

    'tenant-config.layers.mentions': ({ body }) => readValuesByKey(db.manager, body),

    'tenant-config.layers.places': ({ body }) => readPlaces(db.manager, body),

    async 'tenant-config.layers.nearest'({ tenant_id: tenantId, agent_type, service_id }) {
      const near = (entity: typeof AgentEntity, name: string) =>
        nearestIds(db.manager, entity, tenantId, name);
      return {
        ...(agent_type !== undefined && { agent_type: await near(AgentEntity, agent_type) }),
        ...(service_id !== undefined && {
          service_id: await near(ServiceInstanceEntity, service_id),
        }),
      };
    },
  }) satisfies Handlers;

/** Of so many names the nearest are looked for, those of about the same length first. */
const mostCompared = 1000;

async function nearestIds(
  manager: EntityManager,
  entity: typeof AgentEntity,
  tenantId: string,
  name: string,
): Promise<string[]> {
  const rows = await manager
    .createQueryBuilder(entity, 'd')
    .select('d.id', 'id')
    .where('d.tenant_id = :tenantId', { tenantId })
    .orderBy('abs(length(d.id) - :length)')
    .addOrderBy('d.id')
    .setParameter('length', name.length)
    .limit(mostCompared)
    .getRawMany<{ id: string }>();
  return nearestNames(
    rows.map(({ id }) => id),
    name,
  );
}
