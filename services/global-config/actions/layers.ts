import { In, type DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import { changesAfter, revisionOf } from '../../../shared/commits/commit.ts';
import { platformScope } from '../../../shared/contracts/revision-scopes.ts';
import { defaultConfiguration } from '../../../shared/contracts/service-types.ts';
import { defaultLimit } from '../../../shared/documents/paging.ts';
import { storedEntry } from '../documents/global-entry.ts';
import { storedServiceType } from '../documents/service-type.ts';
import { GlobalEntity, ServiceTypeEntity } from '../schema.ts';
import { described } from './entries.ts';

export const layerActions = (db: DataSource) =>
  ({
    /** One snapshot: entries and service types are exactly those of the revision. */
    'global-config.layers': ({ service_types: wanted = [] }) =>
      db.transaction('REPEATABLE READ', async (manager) => {
        const revision = await revisionOf(manager, platformScope);
        const entries = await manager.findBy(GlobalEntity, { is_public: true });
        const types =
          wanted.length === 0
            ? []
            : await manager.findBy(ServiceTypeEntity, {
                service_type: In(wanted),
                configuration_name: defaultConfiguration,
                is_active: true,
              });
        return {
          revision,
          entries: entries.map((row) => described(storedEntry(row))),
          service_types: Object.fromEntries(
            types.map((row) => [row.service_type, storedServiceType(row)]),
          ),
        };
      }),

    async 'global-config.changes'({ after, limit = defaultLimit }) {
      // The revision first: it is at least what the changes read after it are from.
      const revision = await revisionOf(db.manager, platformScope);
      if (after === undefined) return { items: [], revision };
      const changes = await changesAfter(db.manager, platformScope, after, limit);
      return {
        items: changes.map((change) => ({
          revision: change.revision,
          keys: change.keys,
          changed_at: change.created_at.toISOString(),
        })),
        revision,
      };
    },
  }) satisfies Handlers;
