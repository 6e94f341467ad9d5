/** What config-resolver asks of the platform: its two layers, and its bounds. */
import { In, type DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import { revisionOf } from '../../../shared/commits/commit.ts';
import { platformScope, tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { defaultConfiguration } from '../../../shared/contracts/service-types.ts';
import { storedEntry } from '../documents/global-entry.ts';
import { storedServiceType } from '../documents/service-type.ts';
import { boundsKind } from '../documents/bounds.ts';
import { GlobalEntity, ServiceTypeEntity } from '../schema.ts';
import { described } from './entries.ts';

export const layerActions = (db: DataSource) =>
  ({
    /** One snapshot: entries, service types and bounds are exactly those of the revision, at a moment when the tenant had its. */
    'global-config.layers': ({ service_types: wanted = [], tenant_id: tenantId }) =>
      db.transaction('REPEATABLE READ', async (manager) => {
        const revision = await revisionOf(manager, platformScope);
        const tenantRevision =
          tenantId === undefined ? null : await revisionOf(manager, tenantScope(tenantId));
        const entries = await manager.findBy(GlobalEntity, { is_public: true });
        const types =
          wanted.length === 0
            ? []
            : await manager.findBy(ServiceTypeEntity, {
                service_type: In(wanted),
                configuration_name: defaultConfiguration,
                is_active: true,
              });
        const bounds = await boundsKind.read(manager, {});
        return {
          revision,
          tenant_revision: tenantRevision,
          bounds,
          entries: entries.map((row) => described(storedEntry(row))),
          service_types: Object.fromEntries(
            types.map((row) => [row.service_type, storedServiceType(row)]),
          ),
        };
      }),
  }) satisfies Handlers;
