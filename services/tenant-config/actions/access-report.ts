/**
 * Who was in a tenant at a moment, and who could approve what. Of a hundred thousand each step takes
 * some 100 ms: what others want of this node has its turn between them.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { DataSource, EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { holdRevisions } from '../../../shared/commits/commit.ts';
import { ReportedVisit, type AccessReport } from '../../../shared/contracts/access-report.ts';
import type { Bounds } from '../../../shared/contracts/bounds.ts';
import type { ChangePolicy } from '../../../shared/contracts/change-policy.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import type { NotificationConfig } from '../../../shared/contracts/notification-config.ts';
import { memberScope, tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { codeOf, invalid } from '../../../shared/errors.ts';
import { momentOf } from '../../../shared/schema/moment.ts';
import { viewBy } from '../../../shared/schema/view.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import {
  approvalsOf,
  changeSetApproversOf,
  groupsOf,
  type Principals,
} from '../rules/access-report.ts';
import { effectiveNotifications } from '../rules/effective-notifications.ts';
import type { VisitRow } from '../schema.ts';
import { documentAt, revisionAt } from '../stores/history.ts';
import { membershipsAt, type Membership } from '../stores/membership-history.ts';
import { findTenant } from '../stores/tenants.ts';
import { visitsAt } from '../stores/visits.ts';

interface Then {
  readonly at: Date;
  readonly knownSince: Date | null;
  readonly revision: number;
  readonly memberships: readonly Membership[];
  readonly visits: readonly VisitRow[];
  readonly routing: NotificationConfig | null;
  readonly policy: ChangePolicy | null;
  readonly bounds: Bounds | null;
}

/** The moment asked for by the database's clock, which history goes by. Throws 422 for one to come. */
async function pastMoment(manager: EntityManager, asked: Date | undefined): Promise<Date> {
  // Of whole milliseconds, which is what requests can say: the next one, which has all there is.
  const [row] = await manager.query<[{ now: Date }]>(
    `SELECT date_trunc('milliseconds', clock_timestamp()) + interval '1 millisecond' AS now`,
  );
  if (asked && asked > row.now)
    throw invalid([{ path: '/at', message: 'must not be in the future' }]);
  return asked ?? row.now;
}

/**
 * Whoever changes members or configuration meanwhile waits: what they write is from after the
 * moment, and what is from before it is there.
 */
const readThen = (db: DataSource, tenantId: string, asked: Date | undefined): Promise<Then> =>
  db.transaction(async (manager) => {
    await holdRevisions(manager, [memberScope(tenantId), tenantScope(tenantId)]);
    const at = await pastMoment(manager, asked);
    const { memberships_known_since: knownSince } = await findTenant(manager, tenantId);
    const isKnown = knownSince === null || at >= knownSince;
    const revision = await revisionAt(manager, tenantId, at);
    const documentOf = async <Document>(
      configType: 'notification_config' | 'change_policy_config' | 'bounds_config',
    ): Promise<Document | null> => {
      const name = { tenantId, configType, resourceId: tenantId };
      return (await documentAt<Document>(manager, name, revision))?.document ?? null;
    };
    return {
      at,
      knownSince,
      revision,
      memberships: isKnown ? await membershipsAt(manager, tenantId, at) : [],
      visits: await visitsAt(manager, tenantId, at),
      routing: await documentOf<NotificationConfig>('notification_config'),
      policy: await documentOf<ChangePolicy>('change_policy_config'),
      bounds: await documentOf<Bounds>('bounds_config'),
    };
  });

type Member = AccessReport['members'][number];
type Accounts = ResultOf<'auth.users.at'>;

const mostAsked = 10_000;

async function accountsAt(ids: readonly string[], at: Date, request: Request): Promise<Accounts> {
  const accounts: Accounts = [];
  for (let from = 0; from < ids.length; from += mostAsked) {
    const part = await request.call('auth.users.at', {
      user_ids: ids.slice(from, from + mostAsked),
      at: at.toISOString(),
    });
    accounts.push(...part);
    await nextTurn();
  }
  return accounts;
}

/** By code units: a collation takes ten times as long. */
const compare = (one: string, other: string): number => (one < other ? -1 : Number(one > other));

/** People with their accounts, which are `auth`'s, and service accounts. */
async function principalsOf(
  { memberships, at }: Then,
  request: Request,
): Promise<Principals & { readonly areAllKnown: boolean }> {
  const people = memberships.filter(({ kind }) => kind === 'user');
  const accounts = await accountsAt(
    people.map(({ id }) => id),
    at,
    request,
  );
  const byId = new Map(accounts.map((account) => [account.id, account]));
  const members = people.map(({ id, roles, groups, status }): Member => {
    const account = byId.get(id);
    const isIn = status === 'active';
    const accountStatus = (isIn && account?.status) || null;
    const canAct = accountStatus === null ? null : accountStatus === 'active';
    return {
      user_id: id,
      email: account?.email ?? null,
      display_name: (isIn && account?.display_name) || null,
      roles,
      groups,
      status: isIn ? 'active' : 'invited',
      account_status: accountStatus,
      can_act: isIn ? canAct : false,
    };
  });
  await nextTurn();
  const programs = memberships.filter(({ kind }) => kind === 'service_account');
  return {
    members: members.toSorted((one, other) => compare(orderOf(one), orderOf(other))),
    service_accounts: programs
      .map(({ id, name, roles, status }) => ({
        id,
        name: name ?? id,
        roles,
        status: status === 'active' ? ('active' as const) : ('disabled' as const),
      }))
      .toSorted((one, other) => compare(one.name, other.name)),
    areAllKnown: members.every(({ can_act: canAct }) => canAct !== null),
  };
}
const orderOf = ({ email, user_id: id }: Member): string => email ?? `~${id}`;

/** Those of then, as far back as the history of the platform goes. */
async function platformBoundsAt(at: string | undefined, request: Request) {
  try {
    const question = { service_types: [], ...(at !== undefined && { as_of: at }) };
    const { bounds } = await request.call('global-config.layers', question);
    return { bounds: bounds?.document ?? null, isKnown: true };
  } catch (error) {
    if (codeOf(error) !== 'before_history') throw error;
    return { bounds: null, isKnown: false };
  }
}

export const accessReportActions = (db: DataSource, settings: () => Settings) =>
  ({
    async 'tenant-config.access-report'({ tenant_id: tenantId, at: asked }, request) {
      const then = await readThen(db, tenantId, asked === undefined ? undefined : momentOf(asked));
      const { at, knownSince, revision, policy, bounds } = then;
      const { areAllKnown, ...principals } = await principalsOf(then, request);
      const platform = await platformBoundsAt(asked, request);
      const routing = effectiveNotifications(then.routing, settings());
      const approvals = approvalsOf(principals, routing);
      const asks = approvals.routes.flatMap(({ chain }) => chain);
      await nextTurn();
      const groups = groupsOf(principals.members, [...asks, ...(policy?.groups ?? [])]);
      await nextTurn();
      const approvers = changeSetApproversOf(principals, policy);
      await nextTurn();
      return {
        tenant_id: tenantId,
        at: at.toISOString(),
        revision,
        complete: areAllKnown && platform.isKnown && (knownSince === null || at >= knownSince),
        known_since: knownSince?.toISOString() ?? null,
        members: [...principals.members],
        service_accounts: [...principals.service_accounts],
        visits: then.visits.map((visit) => viewBy(ReportedVisit, visit)),
        groups,
        approvals,
        change_sets: { policy, approvers },
        bounds,
        platform_bounds: platform.bounds,
      };
    },
  }) satisfies Handlers;
