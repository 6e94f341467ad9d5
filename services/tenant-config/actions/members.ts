/** Actions on memberships. Their revisions are those of the scope `members:<id>`; names and addresses come from `auth`. */
import { MoreThan, type DataSource } from 'typeorm';
import type { Handlers, Request } from '../../../shared/cluster/request.ts';
import { commitChange, readSnapshot, type EventDraft } from '../../../shared/commits/commit.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { memberKey } from '../../../shared/contracts/members.ts';
import { memberScope } from '../../../shared/contracts/revision-scopes.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import { StrataError } from '../../../shared/errors.ts';
import { diff } from '../../../shared/schema/diff.ts';
import { deciderOf } from '../rules/decider.ts';
import { checkGrant } from '../rules/granting.ts';
import { MemberEntity, TenantEntity, type MemberRow, type TenantRow } from '../schema.ts';
import { findApprovers, findMember, requireAdministrator } from '../stores/members.ts';
import { requireTenant } from '../stores/tenants.ts';

type Member = ResultOf<'tenant-config.members.add'>;
type Account = ResultOf<'auth.users.ensure'>;

const memberOf = (row: MemberRow, account: Account | undefined): Member => ({
  user_id: row.user_id,
  email: account?.email ?? '',
  display_name: account?.display_name ?? null,
  roles: row.roles,
  groups: row.groups,
  added_at: row.added_at.toISOString(),
});

const membershipOf = (tenant: TenantRow, row: MemberRow) => ({
  tenant_id: tenant.id,
  tenant_name: tenant.name,
  tenant_status: tenant.status,
  roles: row.roles,
  groups: row.groups,
});

/** The rows with name and address from the accounts, which are `auth`'s. */
async function withAccounts(rows: readonly MemberRow[], request: Request): Promise<Member[]> {
  if (rows.length === 0) return [];
  const accounts = await request.call('auth.users.get', {
    user_ids: rows.map((row) => row.user_id),
  });
  const byId = new Map(accounts.map((account) => [account.id, account]));
  return rows.map((row) => memberOf(row, byId.get(row.user_id)));
}

const eventOf = (
  action: 'added' | 'updated' | 'removed',
  tenantId: string,
  userId: string,
  payload: unknown,
): EventDraft => ({
  action: `tenant.member_${action}`,
  tenant_id: tenantId,
  target: userId,
  payload,
});

export const memberActions = (db: DataSource) =>
  ({
    async 'tenant-config.members.list'({ tenant_id, limit = defaultLimit, cursor }, request) {
      const after = decodeCursor(cursor, 'id');
      const rows = await db.manager.find(MemberEntity, {
        where: { tenant_id, ...(after !== undefined && { user_id: MoreThan(after) }) },
        order: { user_id: 'ASC' },
        take: limit + 1,
      });
      const { items, next_cursor } = pageOf(
        rows,
        limit,
        (row) => row.user_id,
        (row) => row,
      );
      return { items: await withAccounts(items, request), next_cursor };
    },

    async 'tenant-config.members.add'({ tenant_id, body }, request) {
      const { roles, groups = [], ...account } = body;
      checkGrant(request.caller, roles);
      const user = await request.call('auth.users.ensure', { body: account });
      const address = { tenant_id, user_id: user.id };
      const row: MemberRow = { ...address, roles, groups, added_at: new Date() };
      await commitChange(db, request, memberScope(tenant_id), async (manager) => {
        await requireTenant(manager, tenant_id);
        const isMember = await manager.existsBy(MemberEntity, address);
        if (isMember)
          throw new StrataError(
            'conflict',
            'This person is a member already. Change their roles instead.',
          );
        await manager.insert(MemberEntity, row);
        return {
          result: undefined,
          keys: [memberKey(address)],
          events: [eventOf('added', tenant_id, user.id, { roles, groups })],
        };
      });
      return memberOf(row, user);
    },

    async 'tenant-config.members.patch'({ tenant_id, user_id, body }, request) {
      const { result } = await commitChange(
        db,
        request,
        memberScope(tenant_id),
        async (manager) => {
          const before = await findMember(manager, tenant_id, user_id);
          const after: MemberRow = { ...before, ...body };
          checkGrant(request.caller, after.roles, before.roles);
          const { roles, groups } = after;
          await manager.update(MemberEntity, { tenant_id, user_id }, { roles, groups });
          await requireAdministrator(manager, tenant_id);
          const changes = diff({ roles: before.roles, groups: before.groups }, { roles, groups });
          return {
            result: after,
            keys: request.keys,
            events: [eventOf('updated', tenant_id, user_id, { changes })],
          };
        },
      );
      const [member] = await withAccounts([result], request);
      return member!;
    },

    async 'tenant-config.members.remove'({ tenant_id, user_id }, request) {
      await commitChange(db, request, memberScope(tenant_id), async (manager) => {
        const { roles, groups } = await findMember(manager, tenant_id, user_id);
        await manager.delete(MemberEntity, { tenant_id, user_id });
        await requireAdministrator(manager, tenant_id);
        return {
          result: undefined,
          keys: request.keys,
          events: [eventOf('removed', tenant_id, user_id, { roles, groups })],
        };
      });
      return null;
    },

    'tenant-config.members.resolve': ({ tenant_id, user_id }) =>
      readSnapshot(db, memberScope(tenant_id), async (manager) => {
        const row = await manager.findOneBy(MemberEntity, { tenant_id, user_id });
        const tenant = row && (await manager.findOneBy(TenantEntity, { id: tenant_id }));
        return row && tenant ? membershipOf(tenant, row) : null;
      }),

    async 'tenant-config.members.of'({ user_id }) {
      const rows = await db.manager.findBy(MemberEntity, { user_id });
      const tenants = await Promise.all(
        rows.map((row) => db.manager.findOneByOrFail(TenantEntity, { id: row.tenant_id })),
      );
      return rows
        .map((row, index) => membershipOf(tenants[index]!, row))
        .sort((a, b) => a.tenant_name.localeCompare(b.tenant_name));
    },

    async 'tenant-config.members.provision'({ tenant_id, user_id, body: { roles } }, request) {
      const address = { tenant_id, user_id };
      await commitChange(db, request, memberScope(tenant_id), async (manager) => {
        await requireTenant(manager, tenant_id);
        const isMember = await manager.existsBy(MemberEntity, address);
        if (isMember) return { result: undefined, keys: [], events: [] };
        await manager.insert(MemberEntity, {
          ...address,
          roles,
          groups: [],
          added_at: new Date(),
        });
        return {
          result: undefined,
          keys: [memberKey(address)],
          events: [eventOf('added', tenant_id, user_id, { roles, groups: [] })],
        };
      });
      return null;
    },

    async 'tenant-config.members.decider'({ tenant_id, email: address, chain }, request) {
      const account = await request.call('auth.users.find', { email: address });
      const tenant = await db.manager.findOneBy(TenantEntity, { id: tenant_id });
      if (tenant?.status !== 'active') return { decider: null };
      const member =
        account && (await db.manager.findOneBy(MemberEntity, { tenant_id, user_id: account.id }));
      const config = tenant.notification_config;
      return { decider: deciderOf({ address, account, member, config, chain }) };
    },

    async 'tenant-config.members.approvers'({ tenant_id, groups }, request) {
      const rows = await findApprovers(db.manager, tenant_id, groups);
      const accounts = await request.call('auth.users.get', {
        user_ids: rows.map((row) => row.user_id),
      });
      // Whoever is disabled cannot sign in, and is not asked either.
      const active = accounts.filter(({ status }) => status === 'active');
      const emails = new Map(active.map(({ id, email }) => [id, email]));
      const approversWho = (isMeant: (row: MemberRow) => boolean) =>
        rows
          .filter((row) => emails.has(row.user_id) && isMeant(row))
          .map(({ user_id }) => ({ user_id, email: emails.get(user_id)! }));
      return {
        groups: Object.fromEntries(
          groups.map((group) => [group, approversWho((row) => row.groups.includes(group))]),
        ),
        admins: approversWho((row) => row.roles.includes('tenant_admin')),
      };
    },
  }) satisfies Handlers;
