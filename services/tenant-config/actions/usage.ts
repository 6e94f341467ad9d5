/** What is counted of tenants, beside what may be. */
import type { DataSource } from 'typeorm';
import { tenantsNear, usageFrom, usageOf } from '../../../shared/commits/usage.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { endpointsOf } from '../../../shared/contracts/notification-config.ts';
import { countedUsages } from '../../../shared/contracts/usage.ts';
import { limitOf } from '../../../shared/settings/quotas.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { findTenant } from '../stores/tenants.ts';

export const usageActions = (db: DataSource, settings: () => Settings) =>
  ({
    async 'tenant-config.usage.read'({ tenant_id }) {
      const { manager } = db;
      const { notification_config: config } = await findTenant(manager, tenant_id);
      const counted = await usageOf(manager, tenant_id);
      const [history] = await manager.query<[{ count: number }]>(
        `SELECT count(*)::int AS count FROM (
           SELECT changed_at FROM tenant_config.configuration_history
           WHERE tenant_id = $1 ORDER BY revision DESC LIMIT $2
         ) AS newest WHERE changed_at > clock_timestamp() - interval '1 hour'`,
        // One more than the limit, where it was lowered.
        [tenant_id, limitOf('history_per_hour', settings()) + 1],
      );
      return {
        api_keys: counted.get('api_keys') ?? 0,
        documents: counted.get('documents') ?? 0,
        members: counted.get('members') ?? 0,
        service_accounts: counted.get('service_accounts') ?? 0,
        endpoints: config === null ? 0 : endpointsOf(config).length,
        history_per_hour: history.count,
      };
    },

    'tenant-config.usage.near': (params) =>
      tenantsNear(db.manager, usageFrom, countedUsages, params, settings()),
  }) satisfies Handlers;
