import { randomUUID } from 'node:crypto';
import { MoreThan, type DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import { memberScope, tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { memberKey } from '../../../shared/contracts/members.ts';
import { riskKey } from '../../../shared/contracts/risk.ts';
import { StrataError } from '../../../shared/errors.ts';
import { commitChange } from '../../../shared/commits/commit.ts';
import { diff } from '../../../shared/schema/diff.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import type { Settings } from '../../../shared/settings.ts';
import { seedRisk } from '../documents/risk.ts';
import { recordHistory } from '../documents/tenant-document.ts';
import { managedTypes } from '../managed-types.ts';
import { MemberEntity, RiskEntity, TenantEntity, type TenantRow } from '../schema.ts';

const tenantOf = (row: TenantRow) => ({
  id: row.id,
  name: row.name,
  status: row.status,
  created_at: row.created_at.toISOString(),
  updated_at: row.updated_at.toISOString(),
});

export const tenantActions = (db: DataSource, settings: () => Settings) =>
  ({
    /** The tenant, its risk limits and its first administrator appear together or not at all. */
    async 'tenant-config.tenants.create'({ body: { name, admin } }, request) {
      const types = await managedTypes(request);
      const user = await request.call('auth.users.ensure', { body: admin });
      const id = randomUUID();
      const { result } = await commitChange(
        db,
        request,
        tenantScope(id),
        async (manager, revision) => {
          const now = new Date();
          const by = request.caller.id;
          const tenant: TenantRow = {
            id,
            name,
            status: 'active',
            created_at: now,
            updated_at: now,
            notification_config: null,
            notification_revision: revision,
            notification_updated_by: by,
            notification_updated_at: now,
          };
          const risk = seedRisk(settings(), types);
          await manager.insert(TenantEntity, tenant as never);
          await manager.insert(RiskEntity, {
            tenant_id: id,
            id,
            document: risk,
            revision,
            updated_by: by,
            updated_at: now,
          });
          await manager.insert(MemberEntity, {
            tenant_id: id,
            user_id: user.id,
            roles: ['tenant_admin'],
            groups: [],
            added_at: now,
          });
          await recordHistory(
            manager,
            { configType: 'tenant_risk_config', tenantId: id, target: id },
            {
              revision,
              action: 'create',
              before: null,
              after: risk,
              at: now.toISOString(),
              reason: 'tenant created',
            },
            request,
          );
          return {
            result: tenant,
            keys: [riskKey({ tenant_id: id }), memberKey({ tenant_id: id, user_id: user.id })],
            events: [
              {
                action: 'tenant.created',
                tenant_id: id,
                target: id,
                payload: { name, admin: user.id },
              },
            ],
          };
        },
      );
      return { ...tenantOf(result), admin: { user_id: user.id, email: user.email } };
    },

    async 'tenant-config.tenants.list'({ limit = defaultLimit, cursor }) {
      const after = decodeCursor(cursor, 'id');
      const rows = await db.manager.find(TenantEntity, {
        where: after === undefined ? {} : { id: MoreThan(after) },
        order: { id: 'ASC' },
        take: limit + 1,
      });
      return pageOf(rows, limit, (row) => row.id, tenantOf);
    },

    async 'tenant-config.tenants.get'({ tenant_id: id }) {
      const row = await db.manager.findOneBy(TenantEntity, { id });
      if (!row) throw new StrataError('not_found', 'There is no such tenant.');
      return tenantOf(row);
    },

    /** Disabling takes effect on every node at once: every member's cached membership is dropped. */
    async 'tenant-config.tenants.patch'({ tenant_id: id, body }, request) {
      const { result } = await commitChange(db, request, memberScope(id), async (manager) => {
        const before = await manager.findOneBy(TenantEntity, { id });
        if (!before) throw new StrataError('not_found', 'There is no such tenant.');
        const after: TenantRow = { ...before, ...body, updated_at: new Date() };
        await manager.update(
          TenantEntity,
          { id },
          { name: after.name, status: after.status, updated_at: after.updated_at },
        );
        const members = await manager.find(MemberEntity, {
          where: { tenant_id: id },
          select: { user_id: true },
        });
        const changes = diff(
          { name: before.name, status: before.status },
          { name: after.name, status: after.status },
        );
        return {
          result: after,
          keys: members.map(({ user_id }) => memberKey({ tenant_id: id, user_id })),
          events: [{ action: 'tenant.updated', tenant_id: id, target: id, payload: { changes } }],
        };
      });
      return tenantOf(result);
    },
  }) satisfies Handlers;
