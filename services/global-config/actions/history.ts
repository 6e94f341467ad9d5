/** Actions on the platform's ConfigurationHistory: its pages, and one entry in full. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import { platformRealm } from '../../../shared/commits/actor-names.ts';
import { historyDetail, historyEntry, withAuthors } from '../../../shared/documents/history.ts';
import { decodeCursor, defaultLimit, readPage } from '../../../shared/documents/paging.ts';
import { HistoryEntity } from '../schema.ts';
import { findEntry } from '../stores/history.ts';

export const historyActions = (db: DataSource) =>
  ({
    async 'global-config.history.list'({ config_type, resource_id, limit = defaultLimit, cursor }) {
      const rowsAfter = (key: string | undefined) => {
        const query = db.manager.createQueryBuilder(HistoryEntity, 'h').where('true');
        if (config_type !== undefined)
          query.andWhere('h.config_type = :config_type', { config_type });
        if (resource_id !== undefined)
          query.andWhere('h.resource_id = :resource_id', { resource_id });
        if (key !== undefined) query.andWhere('h.revision < :before', { before: Number(key) });
        return query.orderBy('h.revision', 'DESC');
      };
      const page = await readPage({
        limit,
        after: decodeCursor(cursor, 'number'),
        rowsAfter,
        keyOf: (row) => row.revision,
        itemOf: historyEntry,
      });
      return { ...page, items: await withAuthors(db.manager, platformRealm, page.items) };
    },

    async 'global-config.history.get'({ revision }) {
      const found = historyDetail(await findEntry(db.manager, revision));
      const [entry] = await withAuthors(db.manager, platformRealm, [found]);
      return entry!;
    },
  }) satisfies Handlers;
