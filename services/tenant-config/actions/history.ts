import { LessThan, MoreThan, type DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { StrataError } from '../../../shared/errors.ts';
import { revisionOf } from '../../../shared/commits/commit.ts';
import { diff } from '../../../shared/schema/diff.ts';
import { decodeNumberCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import { concealSecrets } from '../../../shared/security/document-secrets.ts';
import { HistoryEntity, type HistoryRow } from '../schema.ts';

const entryOf = (row: HistoryRow) => ({
  revision: row.revision,
  config_type: row.config_type,
  resource_id: row.resource_id,
  action: row.action,
  changed_by: row.changed_by,
  changed_at: row.changed_at.toISOString(),
  reason: row.reason,
  request_id: row.request_id,
  changes: diff(row.before ?? undefined, row.after ?? undefined).map((change) =>
    concealSecrets(change),
  ),
});

export const historyActions = (db: DataSource) =>
  ({
    async 'tenant-config.history.list'({
      tenant_id,
      config_type,
      resource_id,
      limit = defaultLimit,
      cursor,
    }) {
      const before = decodeNumberCursor(cursor);
      const rows = await db.manager.find(HistoryEntity, {
        where: {
          tenant_id,
          ...(config_type && { config_type }),
          ...(resource_id !== undefined && { resource_id }),
          ...(before !== undefined && { revision: LessThan(before) }),
        },
        order: { revision: 'DESC' },
        take: limit + 1,
      });
      return pageOf(rows, limit, (row) => row.revision, entryOf) as never;
    },

    async 'tenant-config.history.get'({ tenant_id, revision }) {
      const row = await db.manager.findOneBy(HistoryEntity, { tenant_id, revision });
      if (!row) throw new StrataError('not_found', 'The history has no such revision.');
      return {
        ...entryOf(row),
        before: concealSecrets(row.before),
        after: concealSecrets(row.after),
      } as never;
    },

    /** Gapless: every revision of a tenant has its row. */
    async 'tenant-config.changes'({ tenant_id, after, limit = defaultLimit }) {
      const revision = await revisionOf(db.manager, tenantScope(tenant_id));
      const rows =
        after === undefined
          ? []
          : await db.manager.find(HistoryEntity, {
              where: { tenant_id, revision: MoreThan(after) },
              order: { revision: 'ASC' },
              take: limit,
              select: {
                revision: true,
                config_type: true,
                resource_id: true,
                action: true,
                changed_by: true,
                changed_at: true,
              },
            });
      const items = rows.map((row) => ({
        revision: row.revision,
        config_type: row.config_type,
        resource_id: row.resource_id,
        action: row.action,
        changed_by: row.changed_by,
        changed_at: row.changed_at.toISOString(),
      }));
      return { items, revision } as never;
    },
  }) satisfies Handlers;
