/** Who decides approvals: actions that the notifier asks. */
import type { DataSource, EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { revisionsOf } from '../../../shared/commits/commit.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { authScope, memberScope, tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { synchronizedNow } from '../../../shared/process/synchronized-clock.ts';
import { hasDeciderRole, linkDeciderOf, rightOf, type AskedGroups } from '../rules/decider.ts';
import { countedFor, distrustedBefore, type Asked } from '../rules/given.ts';
import { MemberEntity, ServiceAccountEntity, type MemberRow, type TenantRow } from '../schema.ts';
import { wereNewAdministrators } from '../stores/membership-history.ts';
import { decidersOf, findApprovers } from '../stores/members.ts';
import { findTenant } from '../stores/tenants.ts';

type Decider = Pick<ResultOf<'tenant-config.members.decider'>, 'decider' | 'why_not'>;
const noDecider: Decider = { decider: null, why_not: null };

/**
 * Whether the groups have somebody who could decide: with a role that decides, and an account that
 * is not disabled. Looked for in parts: a group may have as many people as the tenant.
 */
async function askedGroups(
  manager: EntityManager,
  tenantId: string,
  names: readonly string[],
  when: Asked,
  request: Request,
): Promise<AskedGroups> {
  if (names.length === 0) return { names, haveDeciders: false };
  for await (const part of decidersOf(manager, tenantId, names)) {
    const deciders = part.filter((row) => {
      const { roles, groups } = countedFor(row, when).counted;
      return hasDeciderRole(roles) && groups.some((group) => names.includes(group));
    });
    if (deciders.length === 0) continue;
    const accounts = await request.call('auth.users.get', {
      user_ids: deciders.map((row) => row.user_id),
    });
    if (accounts.some(({ status }) => status === 'active')) return { names, haveDeciders: true };
  }
  return { names, haveDeciders: false };
}

const activeMember = (
  manager: EntityManager,
  tenantId: string,
  userId: string,
): Promise<MemberRow | null> =>
  manager.findOneBy(MemberEntity, { tenant_id: tenantId, user_id: userId, status: 'active' });

/** Somebody as who decides, if what counts of their rights lets them. */
function byRight(
  own: Parameters<typeof countedFor>[0],
  asked: AskedGroups,
  when: Asked,
  who: Omit<NonNullable<Decider['decider']>, 'right'>,
): Decider {
  const { counted, whyNot } = countedFor(own, when);
  const right = rightOf(counted, asked);
  if (!right) return { decider: null, why_not: rightOf(own, asked) && whyNot };
  return { decider: { ...who, right }, why_not: null };
}

async function memberDecider(
  manager: EntityManager,
  tenantId: string,
  userId: string,
  asked: AskedGroups,
  when: Asked,
  request: Request,
): Promise<Decider> {
  const [account] = await request.call('auth.users.get', { user_ids: [userId] });
  const member = await activeMember(manager, tenantId, userId);
  if (!member || account?.status !== 'active') return noDecider;
  const { email, display_name: name } = account;
  return byRight(member, asked, when, { id: userId, name: name ?? email, email });
}

/**
 * The same of who made a key of a service account. Where they have lost every right since, as a
 * member whom the requester made for that and removed, nothing says any more who gave it.
 */
async function makerDecider(
  manager: EntityManager,
  tenantId: string,
  userId: string,
  found: Decider,
  when: Asked,
): Promise<Decider> {
  if (found.decider || found.why_not) return found;
  const isNew = await wereNewAdministrators(manager, tenantId, [userId], distrustedBefore(when.at));
  return isNew ? { decider: null, why_not: 'added_by_requester' } : found;
}

async function accountDecider(
  manager: EntityManager,
  tenantId: string,
  accountId: string,
  asked: AskedGroups,
  when: Asked,
): Promise<Decider> {
  const address = { tenant_id: tenantId, id: accountId, status: 'active' } as const;
  const account = await manager.findOneBy(ServiceAccountEntity, address);
  if (!account) return noDecider;
  const own = { roles: account.roles, groups: [], given: account.given };
  return byRight(own, asked, when, { id: accountId, name: account.name, email: null });
}

async function linkDecider(
  manager: EntityManager,
  { id: tenantId, notification_config: config }: TenantRow,
  address: string,
  recipients: readonly string[],
  asked: AskedGroups,
  when: Asked,
  request: Request,
): Promise<Decider> {
  const account = await request.call('auth.users.find', { email: address });
  const member = account && (await activeMember(manager, tenantId, account.id));
  const { counted, whyNot } = member ? countedFor(member, when) : { counted: null, whyNot: null };
  const facts = { address, account, config, recipients, asked };
  const decider = linkDeciderOf({ ...facts, member: counted });
  if (!decider) return { decider: null, why_not: linkDeciderOf({ ...facts, member }) && whyNot };
  if (!account || decider.id !== account.id)
    return { decider: { ...decider, name: address, email: address }, why_not: null };
  const [named] = await request.call('auth.users.get', { user_ids: [account.id] });
  const name = named?.display_name ?? address;
  return { decider: { ...decider, name, email: address }, why_not: null };
}

export const deciderActions = (db: DataSource) =>
  ({
    async 'tenant-config.members.decider'(
      { tenant_id, user_id, account_id, email, groups, asked, recipients = [] },
      request,
    ) {
      const { manager } = db;
      // Before what they count is read, so that a change in between is noticed by whoever compares
      // them later. The tenant's documents say nothing of a member's right, only of addresses.
      const scopes = [memberScope(tenant_id), authScope];
      if (email !== undefined) scopes.push(tenantScope(tenant_id));
      const revisions = await revisionsOf(manager, scopes);
      const tenant = await findTenant(manager, tenant_id);
      const { name: tenant_name } = tenant;
      if (tenant.status === 'disabled') return { tenant_name, revisions, ...noDecider };
      const when: Asked = asked ?? { at: new Date(synchronizedNow()).toISOString(), by: [] };
      const ofGroups = await askedGroups(manager, tenant_id, groups, when, request);
      const find = async (): Promise<Decider> => {
        if (user_id !== undefined) {
          const found = await memberDecider(manager, tenant_id, user_id, ofGroups, when, request);
          if (account_id === undefined) return found;
          return makerDecider(manager, tenant_id, user_id, found, when);
        }
        if (account_id !== undefined)
          return accountDecider(manager, tenant_id, account_id, ofGroups, when);
        if (email !== undefined)
          return linkDecider(manager, tenant, email, recipients, ofGroups, when, request);
        throw new Error('no one is named who would decide');
      };
      return { tenant_name, revisions, ...(await find()) };
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
        groups_with_deciders: groups.filter((group) =>
          rows.some(
            (row) =>
              emails.has(row.user_id) && row.groups.includes(group) && hasDeciderRole(row.roles),
          ),
        ),
      };
    },
  }) satisfies Handlers;
