/** What tenants have that has not ended, beside what they may have. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { leastOf, limitOf } from '../../../shared/settings/quotas.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { unendedOf, unendedFrom } from '../stores/usage.ts';

export const usageActions = (db: DataSource, settings: () => Settings) =>
  ({
    'notifier.usage.read': ({ tenant_id }) => unendedOf(db.manager, tenant_id),

    async 'notifier.usage.near'({ percent, after_what, after_tenant, limit }) {
      const least = {
        approvals_pending: leastOf('approvals_pending', percent, settings()),
        automations_live: leastOf('automations_live', percent, settings()),
      };
      const after =
        after_what === undefined ? undefined : { what: after_what, tenant_id: after_tenant! };
      const rows = await unendedFrom(db.manager, least, after, limit);
      return rows.map((row) => ({ ...row, limit: limitOf(row.what, settings()) }));
    },
  }) satisfies Handlers;
