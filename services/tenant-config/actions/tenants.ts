/** Actions on tenants themselves, for the platform's administrators. */
import { randomUUID } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import { isPlatformAdmin } from '../../../shared/access.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { actorOf, commitChange, type Work } from '../../../shared/commits/commit.ts';
import { wholeScopeKey } from '../../../shared/contracts/feed.ts';
import { memberKey } from '../../../shared/contracts/members.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { riskKey, type RiskConfig } from '../../../shared/contracts/risk.ts';
import { columnsOf } from '../../../shared/database/columns.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import { StrataError } from '../../../shared/errors.ts';
import { diff } from '../../../shared/schema/diff.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { checkWord } from '../rules/granting.ts';
import { seedRisk } from '../rules/risk.ts';
import { checkTenantChange } from '../rules/tenant-change.ts';
import {
  MemberEntity,
  RiskEntity,
  TenantEntity,
  type MemberRow,
  type TenantRow,
} from '../schema.ts';
import { recordHistory } from '../stores/history.ts';
import { managedTypes } from '../stores/managed-types.ts';
import { changeByPlatform, changeRights } from '../stores/members.ts';
import { findShownTenant, findTenant } from '../stores/tenants.ts';
import type { ShownTenant } from '../rules/tenant-view.ts';
import { eraseTime, viewOf } from '../rules/tenant-view.ts';
import { tryToInvite } from './inviting.ts';

/** The rows of a new tenant: itself, its risk limits, its first administrator. */
async function insertTenant(
  manager: EntityManager,
  tenant: TenantRow,
  risk: RiskConfig,
  administrator: Pick<MemberRow, 'user_id' | 'status'>,
): Promise<void> {
  const { id, created_at: now } = tenant;
  await manager.insert(TenantEntity, columnsOf(tenant));
  await manager.insert(RiskEntity, {
    tenant_id: id,
    id,
    document: risk,
    revision: tenant.notification_revision,
    updated_by: tenant.notification_updated_by,
    updated_at: now,
  });
  await manager.insert(MemberEntity, {
    tenant_id: id,
    ...administrator,
    roles: ['tenant_admin'],
    groups: [],
    added_at: now,
    given: null,
  });
}

const createAction = (db: DataSource, settings: () => Settings) =>
  ({
    /**
     * The tenant, its risk limits and its first administrator appear together or not at all. The
     * platform administrator's word proves a new account; whoever has an account already is
     * invited, and keeps their password.
     */
    async 'tenant-config.tenants.create'({ body: { name, admin } }, request) {
      checkWord(request.caller, admin, settings());
      const types = await managedTypes(request);
      const account = await request.call('auth.users.ensure', {
        body: { ...admin, tenant_name: name },
      });
      const status = account.admitted ? 'active' : 'invited';
      const administrator = { user_id: account.id, email: account.email, status } as const;
      const id = randomUUID();
      const risk = seedRisk(settings(), types);
      const result = await commitChange(
        db,
        request,
        tenantScope(id),
        async (manager, now, revision) => {
          const tenant: TenantRow = {
            id,
            name,
            status: 'active',
            sign_in_policy: 'any',
            created_at: now,
            updated_at: now,
            notification_config: null,
            notification_revision: revision,
            notification_updated_by: request.caller.id,
            notification_updated_at: now,
            deletion_asked_at: null,
            erasing_since: null,
            erased_by: null,
            memberships_known_since: null,
          };
          await insertTenant(manager, tenant, risk, { user_id: account.id, status });
          await recordHistory(
            manager,
            { tenantId: id, configType: 'tenant_risk_config', resourceId: id },
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
          const payload = { name, admin: account.id, admin_status: status };
          const answer = { ...viewOf(tenant, settings()), admin: administrator };
          request.checkAnswer(answer);
          return {
            result: { tenant, answer },
            keys: [riskKey({ tenant_id: id }), memberKey({ tenant_id: id, user_id: account.id })],
            events: [{ action: 'tenant.created', tenant_id: id, target: id, payload }],
          };
        },
      );
      if (status === 'invited') await tryToInvite(result.tenant, account.id, request);
      return result.answer;
    },
  }) satisfies Handlers;

export function tenantActions(db: DataSource, settings: () => Settings) {
  const tenantOf = (row: ShownTenant) => viewOf(row, settings());

  return {
    ...createAction(db, settings),

    async 'tenant-config.tenants.list'({ q, limit = defaultLimit, cursor }) {
      const after = decodeCursor(cursor, 'id');
      const query = db.manager
        .createQueryBuilder(TenantEntity, 't')
        .where('t.erasing_since IS NULL');
      if (after !== undefined) query.andWhere('t.id > :after', { after });
      if (q !== undefined)
        query
          .andWhere(
            'tenant_config.parts_of(t.name) @> tenant_config.parts_of(:q, LEAST(3, length(lower(:q))))',
          )
          .andWhere('strpos(lower(t.name), lower(:q)) > 0')
          .setParameters({ q });
      const rows = await query
        .orderBy('t.id', 'ASC')
        .limit(limit + 1)
        .getMany();
      return pageOf(rows, limit, (row) => row.id, tenantOf);
    },

    async 'tenant-config.tenants.get'({ tenant_id }) {
      return tenantOf(await findShownTenant(db.manager, tenant_id));
    },

    /**
     * Disabling and another policy take effect on every node at once: what is cached of every
     * member and service account is dropped, by one key however many they are. Enabling a tenant takes back that its deletion was
     * asked for. Where the keys that passwords made could not be ended, the policy holds already: the
     * same request again ends them.
     */
    async 'tenant-config.tenants.patch'({ tenant_id: id, body }, request) {
      checkTenantChange(request.caller, id, body);
      const { end_password_keys: endsKeys = false, ...asked } = body;
      const change: Work<TenantRow> = async (manager, at) => {
        const before = await findTenant(manager, id);
        const after: TenantRow = { ...before, ...asked, updated_at: at };
        if (after.status === 'active') after.deletion_asked_at = null;
        const { name, status, sign_in_policy, updated_at, deletion_asked_at } = after;
        const written = { name, status, sign_in_policy, updated_at, deletion_asked_at };
        await manager.update(TenantEntity, { id }, written);
        const changes = diff(
          {
            name: before.name,
            status: before.status,
            sign_in_policy: before.sign_in_policy,
            erase_at: eraseTime(before, settings()),
          },
          { name, status, sign_in_policy, erase_at: eraseTime(after, settings()) },
        );
        request.checkAnswer({ ...tenantOf(after), password_keys: null });
        return {
          result: after,
          keys: [wholeScopeKey],
          events: [{ action: 'tenant.updated', tenant_id: id, target: id, payload: { changes } }],
        };
      };
      const commit = isPlatformAdmin(request.caller) ? changeByPlatform : changeRights;
      const row = await commit(db, request, id, change);
      // After the policy holds: until then sessions by password may make further keys.
      const passwordKeys =
        body.sign_in_policy === 'passkey_or_sso'
          ? await request.call('auth.api-key.settle-by-password', {
              tenant_id: id,
              body: { end: endsKeys, actor: actorOf(request.caller) },
            })
          : null;
      return { ...tenantOf(row), password_keys: passwordKeys };
    },

    async 'tenant-config.tenants.delete'({ tenant_id: id }, request) {
      const row = await changeByPlatform<TenantRow>(db, request, id, async (manager, at) => {
        const before = await findTenant(manager, id);
        if (before.status !== 'disabled') throw new StrataError('tenant_not_disabled');
        if (before.deletion_asked_at !== null) return { result: before, keys: [], events: [] };
        const after: TenantRow = { ...before, deletion_asked_at: at };
        await manager.update(TenantEntity, { id }, { deletion_asked_at: at });
        request.checkAnswer(tenantOf(after));
        const payload = { erase_at: eraseTime(after, settings()) };
        const event = { action: 'tenant.deletion_asked', tenant_id: id, target: id, payload };
        return { result: after, keys: [], events: [event] };
      });
      return tenantOf(row);
    },
  } satisfies Handlers;
}
