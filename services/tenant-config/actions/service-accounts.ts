/**
 * Actions on service accounts. Like memberships they have the revisions of the scope
 * `members:<id>`; their keys are `auth`'s.
 */
import { randomUUID } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { noteActor } from '../../../shared/commits/actor-names.ts';
import { readSnapshot, type EventDraft } from '../../../shared/commits/commit.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { memberScope } from '../../../shared/contracts/revision-scopes.ts';
import {
  serviceAccountKey,
  ServiceAccount as ServiceAccountSchema,
} from '../../../shared/contracts/service-accounts.ts';
import { pageById } from '../../../shared/documents/paging.ts';
import { requireQuota } from '../../../shared/commits/usage.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { StrataError } from '../../../shared/errors.ts';
import { diff } from '../../../shared/schema/diff.ts';
import { viewBy } from '../../../shared/schema/view.ts';
import { givenNow } from '../rules/given.ts';
import { checkGrant } from '../rules/granting.ts';
import { ServiceAccountEntity, TenantEntity, type ServiceAccountRow } from '../schema.ts';
import { giftOf } from '../stores/givers.ts';
import { changeRights } from '../stores/members.ts';
import { requireTenant } from '../stores/tenants.ts';

type ServiceAccount = ResultOf<'tenant-config.service-accounts.create'>;

const viewOf = (row: ServiceAccountRow): ServiceAccount => viewBy(ServiceAccountSchema, row);

const eventOf = (
  action: 'created' | 'updated' | 'removed',
  { tenant_id: tenantId, id }: ServiceAccountRow,
  payload: unknown,
): EventDraft => ({
  action: `tenant.service_account_${action}`,
  tenant_id: tenantId,
  target: id,
  payload,
});

/** What may be changed of it. */
const settingsOf = ({ name, description, roles, status }: ServiceAccountRow) => ({
  name,
  description,
  roles,
  status,
});

/** Throws 404 where the tenant has no such account. */
async function findAccount(
  manager: EntityManager,
  tenantId: string,
  id: string,
): Promise<ServiceAccountRow> {
  const row = await manager.findOneBy(ServiceAccountEntity, { tenant_id: tenantId, id });
  if (!row) throw new StrataError('not_found', 'The tenant has no such service account.');
  return row;
}

const newAccount = (
  facts: Pick<ServiceAccountRow, 'tenant_id' | 'name' | 'description' | 'roles' | 'given'>,
  { caller }: Request,
  at: Date,
): ServiceAccountRow => ({
  ...facts,
  id: randomUUID(),
  status: 'active',
  created_by: caller.id,
  created_at: at,
  updated_at: at,
});

export const serviceAccountActions = (db: DataSource, settings: () => Settings) =>
  ({
    'tenant-config.service-accounts.list': ({ tenant_id, ...page }) =>
      pageById(db.manager, ServiceAccountEntity, { tenant_id }, page, viewOf),

    async 'tenant-config.service-accounts.create'({ tenant_id, body }, request) {
      const { name, description = null, roles } = body;
      checkGrant(request.caller, roles);
      const row = await changeRights(db, request, tenant_id, async (manager, at) => {
        await requireTenant(manager, tenant_id);
        await requireQuota(manager, tenant_id, 'service_accounts', settings());
        const gift = await giftOf(manager, tenant_id, request.caller, at);
        const given = givenNow({ roles, groups: [] }, gift);
        const row = newAccount({ tenant_id, name, description, roles, given }, request, at);
        await manager.insert(ServiceAccountEntity, row);
        await noteActor(manager, [tenant_id], { id: row.id, name, address: null });
        request.checkAnswer(viewOf(row));
        return {
          result: row,
          keys: [serviceAccountKey({ tenant_id, account_id: row.id })],
          events: [eventOf('created', row, { name, roles })],
        };
      });
      return viewOf(row);
    },

    /** Roles and status hold on every node at once: the account's cached state is dropped. */
    async 'tenant-config.service-accounts.patch'({ tenant_id, account_id: id, body }, request) {
      const row = await changeRights(db, request, tenant_id, async (manager, at) => {
        const before = await findAccount(manager, tenant_id, id);
        const changed = { ...before, ...body, updated_at: at };
        const gift = await giftOf(manager, tenant_id, request.caller, at);
        const given = givenNow({ roles: changed.roles, groups: [] }, gift, {
          ...before,
          // Whoever enables an account gives it its roles.
          roles: before.status === 'active' ? before.roles : [],
          groups: [],
        });
        const after: ServiceAccountRow = { ...changed, given };
        const hadRoles = before.status === 'active' ? before.roles : [];
        checkGrant(request.caller, after.roles, hadRoles);
        const { name, description, roles, status, updated_at } = after;
        const change = { name, description, roles, status, updated_at, given };
        await manager.update(ServiceAccountEntity, { tenant_id, id }, change);
        await noteActor(manager, [tenant_id], { id, name, address: null });
        const changes = diff(settingsOf(before), settingsOf(after));
        request.checkAnswer(viewOf(after));
        return {
          result: after,
          keys: request.keys,
          events: [eventOf('updated', after, { changes })],
        };
      });
      return viewOf(row);
    },

    /**
     * The keys first: where that fails, or the account is not removed after it, removing it again
     * does both.
     */
    async 'tenant-config.service-accounts.delete'({ tenant_id, account_id: id }, request) {
      await findAccount(db.manager, tenant_id, id);
      const address = { tenant_id, account_id: id };
      await request.call('auth.service-account-key.revoke-all', address);
      await changeRights(db, request, tenant_id, async (manager) => {
        const row = await findAccount(manager, tenant_id, id);
        await manager.delete(ServiceAccountEntity, { tenant_id, id });
        const { name, roles } = row;
        return {
          result: undefined,
          keys: request.keys,
          events: [eventOf('removed', row, { name, roles })],
        };
      });
      return null;
    },

    'tenant-config.service-accounts.resolve': ({ tenant_id, account_id: id }) =>
      readSnapshot(db, memberScope(tenant_id), async (manager) => {
        const row = await manager.findOneBy(ServiceAccountEntity, { tenant_id, id });
        const tenant = row && (await manager.findOneBy(TenantEntity, { id: tenant_id }));
        if (!row || !tenant) return null;
        const { name, status, roles } = row;
        return {
          tenant_id,
          tenant_name: tenant.name,
          tenant_status: tenant.status,
          account_id: id,
          name,
          status,
          roles,
        };
      }),
  }) satisfies Handlers;
