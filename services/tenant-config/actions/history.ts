/** Actions on ConfigurationHistory: its pages, one entry in full, and the changes that watch streams follow. */
import { MoreThan, type DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import { revisionOf } from '../../../shared/commits/commit.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { decodeCursor, defaultLimit, readPage } from '../../../shared/documents/paging.ts';
import { StrataError } from '../../../shared/errors.ts';
import { diff } from '../../../shared/schema/diff.ts';
import { concealSecrets } from '../../../shared/security/document-secrets.ts';
import { HistoryEntity, type HistoryRow } from '../schema.ts';

type Summary = Omit<HistoryRow, 'tenant_id' | 'reason' | 'request_id' | 'before' | 'after'>;

/** That something changed, to what and by whom; without the values, which readers of a stream need not be allowed to see. */
const summaryOf = (row: Summary) => ({
  revision: row.revision,
  config_type: row.config_type,
  resource_id: row.resource_id,
  action: row.action,
  changed_by: row.changed_by,
  changed_at: row.changed_at.toISOString(),
});
const summaryColumns = {
  revision: true,
  config_type: true,
  resource_id: true,
  action: true,
  changed_by: true,
  changed_at: true,
} as const satisfies Record<keyof Summary, true>;

const entryOf = (row: HistoryRow) => ({
  ...summaryOf(row),
  reason: row.reason,
  request_id: row.request_id,
  changes: diff(row.before ?? undefined, row.after ?? undefined).map((change) =>
    concealSecrets(change),
  ),
});

export const historyActions = (db: DataSource) =>
  ({
    async 'tenant-config.history.list'(params) {
      const { tenant_id, config_type, resource_id, limit = defaultLimit, cursor } = params;
      const rowsAfter = (key: string | undefined) => {
        const query = db.manager
          .createQueryBuilder(HistoryEntity, 'h')
          .where('h.tenant_id = :tenant_id', { tenant_id });
        if (config_type !== undefined)
          query.andWhere('h.config_type = :config_type', { config_type });
        if (resource_id !== undefined)
          query.andWhere('h.resource_id = :resource_id', { resource_id });
        if (key !== undefined) query.andWhere('h.revision < :before', { before: Number(key) });
        return query.orderBy('h.revision', 'DESC');
      };
      return readPage({
        limit,
        after: decodeCursor(cursor, 'number'),
        rowsAfter,
        keyOf: (row) => row.revision,
        itemOf: entryOf,
      });
    },

    async 'tenant-config.history.get'({ tenant_id, revision }) {
      const row = await db.manager.findOneBy(HistoryEntity, { tenant_id, revision });
      if (!row) throw new StrataError('not_found', 'The history has no such revision.');
      return {
        ...entryOf(row),
        before: concealSecrets(row.before),
        after: concealSecrets(row.after),
      };
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
      return { items: rows.map(summaryOf), revision };
    },
  }) satisfies Handlers;
