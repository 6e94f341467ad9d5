/** Memberships, as members.ts and its callers need them from the database. */
import type { DataSource, EntityManager } from 'typeorm';
import { actsByRoles, type Caller } from '../../../shared/access.ts';
import {
  commitChange,
  commitChanges,
  revisionsOf,
  type Work,
} from '../../../shared/commits/commit.ts';
import {
  holdAccounts,
  identitiesOf,
  requireCredential,
  whileAsRead,
  type ReadRight,
} from '../../../shared/commits/held-rights.ts';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { sessionCacheKey } from '../../../shared/contracts/auth.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { deciderRoles } from '../../../shared/contracts/notifier.ts';
import { authScope, memberScope } from '../../../shared/contracts/revision-scopes.ts';
import type { TenantRole } from '../../../shared/contracts/roles.ts';
import { StrataError } from '../../../shared/errors.ts';
import { MemberEntity, type MemberRow } from '../schema.ts';

export const noSuchMember = (): StrataError =>
  new StrataError('not_found', 'The tenant has no such member.');

/**
 * SQL for the roles of a member or a service account of the tenant `$1`; null where they are not
 * active there, or the tenant is not.
 */
export const rolesInTenant = (id: `$${number}`): string =>
  `(SELECT held.roles FROM (
     SELECT roles FROM tenant_config.members
     WHERE tenant_id = $1 AND user_id = ${id}::uuid AND status = 'active'
     UNION ALL SELECT roles FROM tenant_config.service_accounts
     WHERE tenant_id = $1 AND id = ${id}::uuid AND status = 'active'
   ) held WHERE EXISTS (SELECT FROM tenant_config.tenants WHERE id = $1 AND status = 'active'))`;

/** Whether the writer acts by roles of this tenant, where they have any. */
export const actsIn = (tenantId: string, writer: Caller | undefined): writer is Caller =>
  writer !== undefined && actsByRoles(writer) && writer.tenant_id === tenantId;

export async function findRoles(
  manager: EntityManager,
  tenantId: string,
  writer: Caller,
): Promise<readonly TenantRole[]> {
  const [row] = await manager.query<[{ roles: TenantRole[] | null }]>(
    `SELECT ${rolesInTenant('$2')} AS roles`,
    [tenantId, writer.id],
  );
  return row.roles ?? [];
}

/** Throws 404 where the person is no member. */
export async function findMember(
  manager: EntityManager,
  tenantId: string,
  userId: string,
): Promise<MemberRow> {
  const row = await manager.findOneBy(MemberEntity, { tenant_id: tenantId, user_id: userId });
  if (!row) throw noSuchMember();
  return row;
}

/** Whether the row counts as an administrator: whoever is only invited manages nothing yet. */
export const isAdministrator = ({ status, roles }: MemberRow): boolean =>
  status === 'active' && roles.includes('tenant_admin');

/**
 * After a change of an administrator: throws 409 where the tenant has none left, and nobody could
 * manage it any more.
 */
export async function requireAdministrator(
  manager: EntityManager,
  tenantId: string,
): Promise<void> {
  const [found] = await manager.query<{ count: number }[]>(
    `SELECT count(*) FROM tenant_config.members WHERE tenant_id = $1 AND status = 'active' AND 'tenant_admin' = ANY(roles)`,
    [tenantId],
  );
  if (found?.count) return;
  throw new StrataError(
    'conflict',
    'The tenant needs at least one tenant_admin. Give the role to another member first.',
  );
}

/**
 * A change by an administrator of who may do what in the tenant. Throws 403 where they are none any more
 * when it comes to its turn: whoever loses the role has not given it to another after that.
 */
export const changeRights = <T>(
  db: DataSource,
  request: Request,
  tenantId: string,
  work: Work<T>,
): Promise<T> =>
  commitChange(db, request, memberScope(tenantId), async (manager, ...now) => {
    await requireStillAdministrator(manager, tenantId, request.caller);
    return work(manager, ...now);
  });

async function requireStillAdministrator(
  manager: EntityManager,
  tenantId: string,
  caller: Caller,
): Promise<void> {
  if (!actsByRoles(caller)) return;
  const [table, id] = caller.type === 'user' ? ['members', 'user_id'] : ['service_accounts', 'id'];
  const found = await manager.query<unknown[]>(
    `SELECT FROM tenant_config.${table}
     WHERE tenant_id = $1 AND ${id} = $2 AND status = 'active' AND 'tenant_admin' = ANY(roles)`,
    [tenantId, caller.id],
  );
  if (found.length === 0)
    throw new StrataError('insufficient_role', 'You are no tenant_admin of this tenant any more.');
}

/**
 * A change of the tenant itself by an administrator of the platform, whom auth knows. Throws 401 or 403
 * where they are none any more when it comes to its turn.
 */
export const changeByPlatform = <T>(
  db: DataSource,
  request: Request,
  tenantId: string,
  work: Work<T>,
): Promise<T> =>
  whileAsRead(async () => {
    const right = await platformRightOf(db.manager, request);
    const [outcome] = await commitChanges(db, request, memberScope(tenantId), [work], {
      finished: (manager) => holdAccounts(manager, [right]),
    });
    return outcome!.result;
  });

async function platformRightOf(
  manager: EntityManager,
  request: Pick<Request, 'caller' | 'call'>,
): Promise<ReadRight> {
  const { caller, call } = request;
  if (!actsByRoles(caller)) return { revisions: {} };
  const revisions = await revisionsOf(manager, [authScope]);
  const { id, session_id: session, api_key: key } = caller;
  const principal = { isPerson: true, id, key: key?.id };
  await requireCredential(principal, request);
  const [user] = await call('auth.users.get', { user_ids: [id] });
  if (user?.status !== 'active' || !user.platform_roles.includes('platform_admin'))
    throw new StrataError('insufficient_role', 'You are no platform_admin any more.');
  const ofSession = session === undefined ? [] : [sessionCacheKey({ session_id: session })];
  return { revisions, identities: [...identitiesOf(principal), ...ofSession] };
}

/** The approver groups that have a member who may decide. */
export async function findStaffedGroups(
  manager: EntityManager,
  tenantId: string,
): Promise<ReadonlySet<string>> {
  const rows = await manager.query<{ name: string }[]>(
    `SELECT DISTINCT unnest(groups) AS name FROM tenant_config.members
     WHERE tenant_id = $1 AND status = 'active' AND roles && $2`,
    [tenantId, deciderRoles],
  );
  return new Set(rows.map(({ name }) => name));
}

/** The active members of any of the groups, and all administrators, by user id. */
export const findApprovers = (
  manager: EntityManager,
  tenantId: string,
  groups: readonly string[],
): Promise<MemberRow[]> =>
  manager.query(
    `SELECT * FROM tenant_config.members
     WHERE tenant_id = $1 AND status = 'active' AND (groups && $2 OR 'tenant_admin' = ANY(roles)) ORDER BY user_id`,
    [tenantId, groups],
  );

const mostInPart = 500;

/** The active members of any of the groups who have a role that decides, part by part. */
export async function* decidersOf(
  manager: EntityManager,
  tenantId: string,
  groups: readonly string[],
): AsyncGenerator<MemberRow[]> {
  let after: string | null = null;
  for (;;) {
    const part: MemberRow[] = await manager.query(
      `SELECT * FROM tenant_config.members
       WHERE tenant_id = $1 AND status = 'active' AND groups && $2 AND roles && $3
         AND ($4::uuid IS NULL OR user_id > $4) ORDER BY user_id LIMIT ${mostInPart}`,
      [tenantId, groups, deciderRoles, after],
    );
    yield part;
    if (part.length < mostInPart) return;
    after = part.at(-1)!.user_id;
  }
}

/**
 * The user's memberships of one status, by the tenants' names. One statement, however many there
 * are: every sign-in asks. It leaves the tenants' notification configurations where they are, which
 * may have a mebibyte each.
 */
export async function findMemberships(
  manager: EntityManager,
  userId: string,
  status: MemberRow['status'],
): Promise<ResultOf<'tenant-config.members.of'>> {
  const found = await manager.query<ResultOf<'tenant-config.members.of'>>(
    `SELECT tenant_id, t.name AS tenant_name, t.status AS tenant_status, t.sign_in_policy, m.roles, m.groups
     FROM tenant_config.members m JOIN tenant_config.tenants t ON t.id = m.tenant_id
     WHERE m.user_id = $1 AND m.status = $2`,
    [userId, status],
  );
  return found.sort((one, other) => one.tenant_name.localeCompare(other.tenant_name));
}
