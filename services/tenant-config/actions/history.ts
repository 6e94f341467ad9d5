/**
 * Actions on ConfigurationHistory: its pages, one entry in full, and the changes that watch streams
 * follow.
 */
import { MoreThan, type DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { revisionOf } from '../../../shared/commits/commit.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import {
  historyDetail,
  historyPage,
  historySummary,
  withAuthors,
} from '../../../shared/documents/history.ts';
import { defaultLimit } from '../../../shared/documents/paging.ts';
import { untilOfRevisions } from '../../../shared/documents/temporary-changes.ts';
import { StrataError } from '../../../shared/errors.ts';
import { HistoryEntity, type HistoryRow } from '../schema.ts';

const summaryColumns = {
  revision: true,
  config_type: true,
  resource_id: true,
  action: true,
  changed_by: true,
  changed_at: true,
  changeset_id: true,
} as const satisfies { readonly [Column in keyof HistoryRow]?: true };

/** Of the changes that end by themselves, when. */
async function withUntil<Entry extends { readonly revision: number }>(
  db: DataSource,
  tenantId: string,
  entries: readonly Entry[],
): Promise<(Entry & { until?: string })[]> {
  const revisions = entries.map(({ revision }) => revision);
  const ends = await untilOfRevisions(db.manager, tenantScope(tenantId), revisions);
  return entries.map((entry) => {
    const until = ends.get(entry.revision);
    return until === undefined ? entry : { ...entry, until };
  });
}

export const historyActions = (db: DataSource) =>
  ({
    async 'tenant-config.history.list'(params) {
      const { tenant_id } = params;
      const rows = () =>
        db.manager
          .createQueryBuilder(HistoryEntity, 'h')
          .where('h.tenant_id = :tenant_id', { tenant_id });
      const page = await historyPage(db.manager, rows, params, tenant_id);
      return { ...page, items: await withUntil(db, tenant_id, page.items) };
    },

    async 'tenant-config.history.get'({ tenant_id, revision }) {
      const row = await db.manager.findOneBy(HistoryEntity, { tenant_id, revision });
      if (!row) throw new StrataError('not_found', 'The history has no such revision.');
      const [entry] = await withAuthors(db.manager, tenant_id, [historyDetail(row)]);
      return (await withUntil(db, tenant_id, [entry!]))[0]!;
    },

    async 'tenant-config.history.resource'({ tenant_id, revision }) {
      const row = await db.manager.findOne(HistoryEntity, {
        where: { tenant_id, revision },
        select: { config_type: true, resource_id: true },
      });
      if (!row) throw new StrataError('not_found', 'The history has no such revision.');
      return { config_type: row.config_type, resource_id: row.resource_id };
    },

    /** Without gaps, since every revision of a tenant has its row. */
    async 'tenant-config.changes'({ tenant_id, after, limit = defaultLimit }) {
      // The revision first: it is at least what the rows read after it are from.
      const revision = await revisionOf(db.manager, tenantScope(tenant_id));
      if (after === undefined) return { items: [], revision };
      const rows = await db.manager.find(HistoryEntity, {
        where: { tenant_id, revision: MoreThan(after) },
        order: { revision: 'ASC' },
        take: limit,
        select: summaryColumns,
      });
      return { items: rows.map(historySummary), revision };
    },
  }) satisfies Handlers;
