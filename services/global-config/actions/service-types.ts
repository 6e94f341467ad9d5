/** Lists of service types. */
import type { DataSource } from 'typeorm';
import { seesPlatform } from '../../../shared/access.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { readSnapshot } from '../../../shared/commits/commit.ts';
import { platformScope } from '../../../shared/contracts/revision-scopes.ts';
import { defaultConfiguration } from '../../../shared/contracts/service-types.ts';
import { decodeCursor, defaultLimit, readPage } from '../../../shared/documents/paging.ts';
import { storedServiceType } from '../documents/service-type.ts';
import { ServiceTypeEntity } from '../schema.ts';

export const serviceTypeActions = (db: DataSource) =>
  ({
    /** By type, then name. Who does not see what is the platform's alone sees the active ones. */
    async 'global-config.service-types.list'({ limit = defaultLimit, cursor }, { caller }) {
      const rowsAfter = (key = '') => {
        const [type = '', name = ''] = key.split('/');
        return db.manager
          .createQueryBuilder(ServiceTypeEntity, 't')
          .where('(t.service_type, t.configuration_name) > (:type, :name)', { type, name })
          .andWhere(seesPlatform(caller) ? 'true' : 't.is_active')
          .orderBy({ 't.service_type': 'ASC', 't.configuration_name': 'ASC' });
      };
      return readPage({
        limit,
        after: decodeCursor(cursor),
        rowsAfter,
        keyOf: (row) => `${row.service_type}/${row.configuration_name}`,
        itemOf: (row) => storedServiceType(row).document,
      });
    },

    'global-config.service-types.active': () =>
      readSnapshot(db, platformScope, async (manager) => {
        const rows = await manager.find(ServiceTypeEntity, {
          where: { configuration_name: defaultConfiguration, is_active: true },
          order: { service_type: 'ASC' },
        });
        const items = rows.map(({ service_type, scaling_limits, updated_by }) => ({
          service_type,
          scaling_limits,
          updated_by,
        }));
        return { items };
      }),
  }) satisfies Handlers;
