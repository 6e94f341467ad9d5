import { MoreThan, type DataSource, type EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../shared/cluster/request.ts';
import { memberKey } from '../../../shared/contracts/members.ts';
import { memberScope } from '../../../shared/contracts/revision-scopes.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { StrataError } from '../../../shared/errors.ts';
import { commitChange, readSnapshot } from '../../../shared/commits/commit.ts';
import { diff } from '../../../shared/schema/diff.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import { requireTenant } from '../documents/tenant-document.ts';
import { MemberEntity, TenantEntity, type MemberRow, type TenantRow } from '../schema.ts';

type Member = ResultOf<'tenant-config.members.add'>;
type Account = ResultOf<'auth.users.ensure'>;

const memberOf = (row: MemberRow, account: Account | undefined): Member => ({
  user_id: row.user_id,
  email: account?.email ?? '',
  display_name: account?.display_name ?? null,
  roles: row.roles as Member['roles'],
  groups: row.groups,
  added_at: row.added_at.toISOString(),
});
const membershipOf = (tenant: TenantRow, row: MemberRow) => ({
  tenant_id: tenant.id,
  tenant_name: tenant.name,
  tenant_status: tenant.status,
  roles: row.roles as Member['roles'],
  groups: row.groups,
});

async function withAccounts(rows: readonly MemberRow[], request: Request): Promise<Member[]> {
  if (rows.length === 0) return [];
  const accounts = await request.call('auth.users.get', {
    user_ids: rows.map((row) => row.user_id),
  });
  return rows.map((row) =>
    memberOf(
      row,
      accounts.find(({ id }) => id === row.user_id),
    ),
  );
}

/** A tenant without an administrator could not be managed by anyone any more. */
async function requireAdministrator(manager: EntityManager, tenantId: string): Promise<void> {
  const [{ count } = { count: 0 }] = await manager.query<{ count: number }[]>(
    `SELECT count(*) FROM tenant_config.members WHERE tenant_id = $1 AND 'tenant_admin' = ANY(roles)`,
    [tenantId],
  );
  if (count === 0)
    throw new StrataError(
      'conflict',
      'The tenant needs at least one tenant_admin. Give the role to another member first.',
    );
}

const event = (action: string, tenantId: string, userId: string, payload: unknown) => ({
  action: `tenant.member_${action}`,
  tenant_id: tenantId,
  target: userId,
  payload,
});

export const memberActions = (db: DataSource) => {
  const find = async (
    manager: EntityManager,
    tenantId: string,
    userId: string,
  ): Promise<MemberRow> => {
    const row = await manager.findOneBy(MemberEntity, { tenant_id: tenantId, user_id: userId });
    if (!row) throw new StrataError('not_found', 'The tenant has no such member.');
    return row;
  };
  return {
    async 'tenant-config.members.list'({ tenant_id, limit = defaultLimit, cursor }, request) {
      const after = decodeCursor(cursor, 'id');
      const rows = await db.manager.find(MemberEntity, {
        where: { tenant_id, ...(after !== undefined && { user_id: MoreThan(after) }) },
        order: { user_id: 'ASC' },
        take: limit + 1,
      });
      const page = pageOf(
        rows,
        limit,
        (row) => row.user_id,
        (row) => row,
      );
      return { ...page, items: await withAccounts(page.items, request) };
    },

    async 'tenant-config.members.add'(
      { tenant_id: tenantId, body: { roles, groups = [], ...account } },
      request,
    ) {
      const user = await request.call('auth.users.ensure', { body: account });
      const row: MemberRow = {
        tenant_id: tenantId,
        user_id: user.id,
        roles,
        groups,
        added_at: new Date(),
      };
      await commitChange(db, request, memberScope(tenantId), async (manager) => {
        await requireTenant(manager, tenantId);
        if (await manager.existsBy(MemberEntity, { tenant_id: tenantId, user_id: user.id })) {
          throw new StrataError(
            'conflict',
            'This person is a member already. Change their roles instead.',
          );
        }
        await manager.insert(MemberEntity, row);
        return {
          result: undefined,
          keys: [memberKey({ tenant_id: tenantId, user_id: user.id })],
          events: [event('added', tenantId, user.id, { roles, groups })],
        };
      });
      return memberOf(row, user);
    },

    async 'tenant-config.members.patch'({ tenant_id: tenantId, user_id: userId, body }, request) {
      const { result } = await commitChange(db, request, memberScope(tenantId), async (manager) => {
        const before = await find(manager, tenantId, userId);
        const after: MemberRow = { ...before, ...body };
        await manager.update(
          MemberEntity,
          { tenant_id: tenantId, user_id: userId },
          { roles: after.roles, groups: after.groups },
        );
        await requireAdministrator(manager, tenantId);
        const changes = diff(
          { roles: before.roles, groups: before.groups },
          { roles: after.roles, groups: after.groups },
        );
        return {
          result: after,
          keys: request.keys,
          events: [event('updated', tenantId, userId, { changes })],
        };
      });
      return (await withAccounts([result], request))[0]!;
    },

    async 'tenant-config.members.remove'({ tenant_id: tenantId, user_id: userId }, request) {
      await commitChange(db, request, memberScope(tenantId), async (manager) => {
        const { roles, groups } = await find(manager, tenantId, userId);
        await manager.delete(MemberEntity, { tenant_id: tenantId, user_id: userId });
        await requireAdministrator(manager, tenantId);
        return {
          result: undefined,
          keys: request.keys,
          events: [event('removed', tenantId, userId, { roles, groups })],
        };
      });
      return null;
    },

    'tenant-config.members.resolve': ({ tenant_id: tenantId, user_id: userId }) =>
      readSnapshot(db, memberScope(tenantId), async (manager) => {
        const row = await manager.findOneBy(MemberEntity, { tenant_id: tenantId, user_id: userId });
        const tenant = row && (await manager.findOneBy(TenantEntity, { id: tenantId }));
        return row && tenant ? membershipOf(tenant, row) : null;
      }),

    async 'tenant-config.members.of'({ user_id: userId }) {
      const rows = await db.manager.findBy(MemberEntity, { user_id: userId });
      const tenants = await Promise.all(
        rows.map((row) => db.manager.findOneByOrFail(TenantEntity, { id: row.tenant_id })),
      );
      return rows
        .map((row, index) => membershipOf(tenants[index]!, row))
        .sort((a, b) => a.tenant_name.localeCompare(b.tenant_name));
    },

    async 'tenant-config.members.provision'(
      { tenant_id: tenantId, user_id: userId, body: { roles } },
      request,
    ) {
      await commitChange(db, request, memberScope(tenantId), async (manager) => {
        await requireTenant(manager, tenantId);
        if (await manager.existsBy(MemberEntity, { tenant_id: tenantId, user_id: userId }))
          return { result: undefined, keys: [], events: [] };
        await manager.insert(MemberEntity, {
          tenant_id: tenantId,
          user_id: userId,
          roles,
          groups: [],
          added_at: new Date(),
        });
        return {
          result: undefined,
          keys: [memberKey({ tenant_id: tenantId, user_id: userId })],
          events: [event('added', tenantId, userId, { roles, groups: [] })],
        };
      });
      return null;
    },

    async 'tenant-config.members.approvers'({ tenant_id: tenantId, groups }, request) {
      const rows = await db.manager.query<MemberRow[]>(
        `SELECT * FROM tenant_config.members WHERE tenant_id = $1 AND (groups && $2 OR 'tenant_admin' = ANY(roles)) ORDER BY user_id`,
        [tenantId, groups],
      );
      const accounts = await request.call('auth.users.get', {
        user_ids: rows.map((row) => row.user_id),
      });
      // Whoever is disabled cannot sign in, and is not asked either.
      const active = new Map(
        accounts.filter(({ status }) => status === 'active').map(({ id, email }) => [id, email]),
      );
      const those = (fits: (row: MemberRow) => boolean) =>
        rows
          .filter((row) => active.has(row.user_id) && fits(row))
          .map(({ user_id }) => ({ user_id, email: active.get(user_id)! }));
      return {
        groups: Object.fromEntries(
          groups.map((group) => [group, those((member) => member.groups.includes(group))]),
        ),
        admins: those((member) => member.roles.includes('tenant_admin')),
      };
    },
  } satisfies Handlers;
};
