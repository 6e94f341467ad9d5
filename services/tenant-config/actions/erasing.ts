/**
 * Erasing a tenant whose time has come, in steps that may each be repeated, so that a node that
 * dies loses nothing:
 *
 * | Step | Done by | Then |
 * |---|---|---|
 * | begin | `tenants.erase`: documents and members go, and the tenant with them for everybody who asks | every node has dropped what it kept of it |
 * | wait | worker/erasing.ts: until requests from before have ended | nothing writes for the tenant any more |
 * | the others | auth and notifier ask `tenants.erasing`, erase their rows, and `tenants.confirm-erased` | |
 * | end | worker/erasing.ts: history, counters, the row of the tenant | `tenant.erased` in the platform's chain, upon which audit keeps the hashes alone |
 */
import { IsNull, Not, type DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { commitChange } from '../../../shared/commits/commit.ts';
import { wholeScopeKey } from '../../../shared/contracts/feed.ts';
import { memberScope, tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import {
  ChangeSetEntity,
  ChangeSetNoticeEntity,
  DirectoryGroupEntity,
  documentEntities,
  MemberEntity,
  ScimUserEntity,
  ServiceAccountEntity,
  TenantEntity,
  VisitEntity,
  WriteCountsEntity,
} from '../schema.ts';
import { isDue, quietTenants } from '../stores/erasing.ts';

/** Nobody is told more of the change than that all of it is gone. */
const allGone = { result: undefined, keys: [wholeScopeKey], events: [] } as const;

export const erasingActions = (db: DataSource, settings: () => Settings) =>
  ({
    /** Does nothing where the tenant is no longer due, because it was enabled meanwhile. */
    async 'tenant-config.tenants.erase'({ tenant_id: id }, request) {
      await commitChange(db, request, memberScope(id), async (manager) => {
        if (!(await isDue(manager, id, settings()))) return { ...allGone, keys: [] };
        await manager.query(
          `UPDATE tenant_config.tenants
           SET erasing_since = clock_timestamp(), notification_config = NULL WHERE id = $1`,
          [id],
        );
        await manager.delete(MemberEntity, { tenant_id: id });
        await manager.delete(ServiceAccountEntity, { tenant_id: id });
        await manager.delete(ScimUserEntity, { tenant_id: id });
        await manager.delete(DirectoryGroupEntity, { tenant_id: id });
        await manager.delete(VisitEntity, { tenant_id: id });
        return allGone;
      });
      const isBegun = await db.manager.existsBy(TenantEntity, {
        id,
        erasing_since: Not(IsNull()),
      });
      if (!isBegun) return null;
      await commitChange(db, request, tenantScope(id), async (manager) => {
        await manager.delete(ChangeSetEntity, { tenant_id: id });
        await manager.delete(ChangeSetNoticeEntity, { tenant_id: id });
        await manager.delete(WriteCountsEntity, { tenant_id: id });
        for (const entity of documentEntities) await manager.delete(entity, { tenant_id: id });
        return allGone;
      });
      return null;
    },

    'tenant-config.tenants.erasing': () => quietTenants(db.manager, settings()),

    async 'tenant-config.tenants.confirm-erased'({ tenant_id: id, service }) {
      await db.query(
        `UPDATE tenant_config.tenants SET erased_by = array_append(erased_by, $2)
         WHERE id = $1 AND erasing_since IS NOT NULL AND NOT $2 = ANY (coalesce(erased_by, '{}'))`,
        [id, service],
      );
      return null;
    },
  }) satisfies Handlers;
