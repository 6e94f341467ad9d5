/** ConfigurationHistory: one row for each revision of a tenant. */
import { LessThanOrEqual, type DataSource, type EntityManager } from 'typeorm';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import type { ConfigType } from '../../../shared/contracts/history.ts';
import { run, runAlone, type Statement } from '../../../shared/database/prepared-statements.ts';
import type { Stored, WriteRecord } from '../../../shared/documents/document-kind.ts';
import {
  historyRowOf,
  leftBehind,
  type HistoryName as AnyHistoryName,
} from '../../../shared/documents/history.ts';
import {
  authorsOf,
  changesOfPlace,
  type KeyAuthor,
  type Place,
} from '../../../shared/documents/key-changes.ts';
import { HistoryEntity, type HistoryRow } from '../schema.ts';

/** A document, as the history names it. */
export interface HistoryName extends AnyHistoryName<ConfigType> {
  readonly tenantId: string;
}

/** Its parameters are `historyValues`. */
export const historyEntry: Statement = {
  name: 'strata_tenant_history_entry',
  text: `INSERT INTO tenant_config.configuration_history
     (tenant_id, revision, config_type, resource_id, action, changed_by, changed_at, reason, request_id, before, after, changeset_id, break_glass)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
};
/** SQL's null where there is no document. */
const jsonOrNull = (document: unknown): string | null =>
  document === null ? null : JSON.stringify(document);

type Writer = Pick<Request, 'caller' | 'requestId' | 'changeSet'>;

export function historyValues(
  { tenantId, ...name }: HistoryName,
  record: WriteRecord<unknown>,
  request: Writer,
): unknown[] {
  const row = historyRowOf(name, record, request);
  return [
    tenantId,
    row.revision,
    row.config_type,
    row.resource_id,
    row.action,
    row.changed_by,
    row.changed_at,
    row.reason,
    row.request_id,
    jsonOrNull(row.before),
    jsonOrNull(row.after),
    row.changeset_id,
    row.break_glass,
  ];
}

export async function recordHistory(
  manager: EntityManager,
  name: HistoryName,
  record: WriteRecord<unknown>,
  request: Writer,
): Promise<void> {
  await run(manager, historyEntry, historyValues(name, record, request));
}

/**
 * What a document was at a revision: what the last entry of its history until then left behind.
 * Null where there was none.
 */
export async function documentAt<Document>(
  manager: EntityManager,
  { tenantId, configType, resourceId }: HistoryName,
  revision: number,
): Promise<Stored<Document> | null> {
  const row = await manager.findOne(HistoryEntity, {
    where: {
      tenant_id: tenantId,
      config_type: configType,
      resource_id: resourceId,
      revision: LessThanOrEqual(revision),
    },
    order: { revision: 'DESC' },
  });
  return row && leftBehind<Document>(row);
}

/** What all documents of a kind were at a revision, by their ids. */
export async function documentsAt<Document>(
  manager: EntityManager,
  { tenantId, configType }: Omit<HistoryName, 'resourceId'>,
  revision: number,
): Promise<Stored<Document>[]> {
  const rows = await manager
    .createQueryBuilder(HistoryEntity, 'h')
    .where('h.tenant_id = :tenantId', { tenantId })
    .andWhere(
      `h.revision IN (
        SELECT max(revision) FROM tenant_config.configuration_history
        WHERE tenant_id = :tenantId AND config_type = :configType AND revision <= :revision GROUP BY resource_id
      )`,
      { configType, revision },
    )
    .orderBy('h.resource_id')
    .getMany();
  return rows.map((row) => leftBehind<Document>(row)).filter((document) => document !== null);
}

/** Of the named `n`, what the last entry until $2 of its history left behind. */
const lastOfNamed = `CROSS JOIN LATERAL (
    SELECT config_type, resource_id, revision, changed_by, changed_at, after
    FROM tenant_config.configuration_history h
    WHERE h.tenant_id = $1 AND h.config_type = n.config_type AND h.resource_id = n.resource_id AND h.revision <= $2
    ORDER BY h.revision DESC LIMIT 1
  ) AS last`;

/** Names as $3 and $4; projects beside those of the services as $5. */
const layersThen: Statement = {
  name: 'strata_tenant_layers_then',
  text: `WITH named AS (
      SELECT last.* FROM unnest($3::text[], $4::text[]) AS n (config_type, resource_id) ${lastOfNamed}
    )
    SELECT * FROM named
    UNION ALL
    SELECT last.* FROM (
      SELECT 'project_config' AS config_type, unnest($5::text[]) AS resource_id
      UNION SELECT 'project_config', after->>'project_id' FROM named WHERE config_type = 'service_config'
    ) AS n ${lastOfNamed}
    ORDER BY config_type, resource_id`,
};

type ThenRow = Pick<
  HistoryRow,
  'config_type' | 'resource_id' | 'revision' | 'changed_by' | 'changed_at' | 'after'
>;

/**
 * What these documents were at a revision, those that there were, and the projects of the services
 * among them: one statement, and so one snapshot.
 */
export async function documentsThen(
  db: DataSource,
  tenantId: string,
  names: readonly AnyHistoryName<ConfigType>[],
  projectIds: readonly string[],
  revision: number,
): Promise<ThenRow[]> {
  const rows = await runAlone<ThenRow>(db, layersThen, [
    tenantId,
    revision,
    names.map(({ configType }) => configType),
    names.map(({ resourceId }) => resourceId),
    projectIds,
  ]);
  return rows.filter(({ after }) => after !== null);
}

/**
 * When a revision was written; for one before the first, the last moment before that. Null where
 * there is no history.
 */
export async function momentOf(
  manager: EntityManager,
  tenantId: string,
  revision: number,
): Promise<Date | null> {
  const [row] = await manager.query<{ at: Date | null }[]>(
    `SELECT COALESCE(
       (SELECT changed_at FROM tenant_config.configuration_history
        WHERE tenant_id = $1 AND revision <= $2 ORDER BY revision DESC LIMIT 1),
       (SELECT changed_at - interval '1 millisecond' FROM tenant_config.configuration_history
        WHERE tenant_id = $1 ORDER BY revision LIMIT 1)
     ) AS at`,
    [tenantId, revision],
  );
  return row!.at;
}

/** The tenant's newest revision at a moment; 0 before the first. */
export async function revisionAt(
  manager: EntityManager,
  tenantId: string,
  moment: Date,
): Promise<number> {
  const row = await manager.findOne(HistoryEntity, {
    where: { tenant_id: tenantId, changed_at: LessThanOrEqual(moment) },
    order: { revision: 'DESC' },
  });
  return row?.revision ?? 0;
}

/** Who set what stood at these places of the tenant's documents at a revision. */
export const keyAuthors = (
  manager: EntityManager,
  tenantId: string,
  places: readonly Place[],
  revision: number,
): Promise<(KeyAuthor | null)[]> =>
  authorsOf(
    manager,
    places,
    `SELECT revision, changed_by, changed_at FROM ${changesOfPlace('tenant_config')}
       AND tenant_id = $4 AND revision <= $5 ORDER BY revision DESC LIMIT 1`,
    [tenantId, revision],
  );
