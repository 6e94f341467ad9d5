/** Actions on the platform's ConfigurationHistory: its pages, and one entry in full. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import { platformRealm } from '../../../shared/commits/actor-names.ts';
import { historyDetail, historyPage, withAuthors } from '../../../shared/documents/history.ts';
import { HistoryEntity } from '../schema.ts';
import { findEntry } from '../stores/history.ts';

export const historyActions = (db: DataSource) =>
  ({
    async 'global-config.history.list'(params) {
      const rows = () => db.manager.createQueryBuilder(HistoryEntity, 'h').where('true');
      return historyPage(db.manager, rows, params, platformRealm);
    },

    async 'global-config.history.get'({ revision }) {
      const found = historyDetail(await findEntry(db.manager, revision));
      const [entry] = await withAuthors(db.manager, platformRealm, [found]);
      return entry!;
    },
  }) satisfies Handlers;
