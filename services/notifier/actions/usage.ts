/** What tenants have that has not ended, beside what they may have. */
import type { DataSource } from 'typeorm';
import { tenantsNear } from '../../../shared/commits/usage.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { notifierUsages } from '../../../shared/contracts/usage.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { unendedOf, unendedFrom } from '../stores/usage.ts';

export const usageActions = (db: DataSource, settings: () => Settings) =>
  ({
    'notifier.usage.read': ({ tenant_id }) => unendedOf(db.manager, tenant_id),

    'notifier.usage.near': (params) =>
      tenantsNear(db.manager, unendedFrom, notifierUsages, params, settings()),
  }) satisfies Handlers;
