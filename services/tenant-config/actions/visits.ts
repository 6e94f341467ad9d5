/**
 * Visits: a platform administrator looks into a tenant. Begin and end are in the tenant's audit;
 * the mail to its administrators follows from the power that a begin takes.
 */
import type { DataSource, EntityManager } from 'typeorm';
import type { Caller } from '../../../shared/access.ts';
import { commitChange, readSnapshot, type EventDraft } from '../../../shared/commits/commit.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { memberScope } from '../../../shared/contracts/revision-scopes.ts';
import { Visit, visitKey } from '../../../shared/contracts/visits.ts';
import { decodeCursor, defaultLimit, pageOf, timeAndId } from '../../../shared/documents/paging.ts';
import { StrataError } from '../../../shared/errors.ts';
import { viewBy } from '../../../shared/schema/view.ts';
import { MemberEntity, TenantEntity, VisitEntity, type VisitRow } from '../schema.ts';
import { endVisits, insertVisit, openVisit } from '../stores/visits.ts';
import { findTenant } from '../stores/tenants.ts';

const visitView = (row: VisitRow): Visit => viewBy(Visit, row);

/** A visit is a person's, in a session: no key has one, nor an operator's console. */
function visitorOf({ type, id, session_id: sessionId, scopes }: Caller) {
  if (type !== 'user' || scopes !== undefined || sessionId === undefined)
    throw new StrataError('auth_token_invalid', 'This needs your own session.');
  return { user_id: id, session_id: sessionId };
}

const visitEvent = (
  what: 'begun' | 'ended',
  { tenant_id, id, user_id, reason, until, ended_at }: VisitRow,
  payload: object = {},
): EventDraft => ({
  action: `tenant.visit_${what}`,
  tenant_id,
  target: id,
  payload: {
    user_id,
    reason,
    until: until.toISOString(),
    ...(ended_at && { ended_at: ended_at.toISOString() }),
    ...payload,
  },
});

/** Ends what is open of them, with events that say why. */
async function end(
  manager: EntityManager,
  which: Parameters<typeof endVisits>[1],
  because: 'ended' | 'begun_again' | 'time',
) {
  const ended = await endVisits(manager, which);
  return {
    keys: ended.map(visitKey),
    events: ended.map((row) => visitEvent('ended', row, { because })),
  };
}

export const visitActions = (db: DataSource) =>
  ({
    /** Whoever begins again, such as in another session, ends what was open of theirs. */
    async 'tenant-config.visits.begin'({ tenant_id, body: { reason } }, request) {
      const visitor = visitorOf(request.caller);
      const row = await commitChange(db, request, memberScope(tenant_id), async (manager) => {
        const tenant = await findTenant(manager, tenant_id);
        if (tenant.status === 'disabled') throw new StrataError('auth_tenant_disabled');
        const member = { tenant_id, user_id: visitor.user_id };
        if (await manager.existsBy(MemberEntity, { ...member, status: 'active' }))
          throw new StrataError('conflict', 'You are a member of this tenant: go there as one.');
        const before = await end(manager, member, 'begun_again');
        const row = await insertVisit(manager, { tenant_id, ...visitor, reason });
        return {
          result: row,
          keys: [visitKey(row)],
          events: [...before.events, visitEvent('begun', row)],
        };
      });
      return visitView(row);
    },

    async 'tenant-config.visits.list'({ tenant_id, limit = defaultLimit, cursor }) {
      const after = decodeCursor(cursor, 'time');
      const query = db.manager
        .createQueryBuilder(VisitEntity, 'v')
        .where('v.tenant_id = :tenant_id', { tenant_id });
      if (after !== undefined)
        query.andWhere('(v.created_at, v.id) < (:time::timestamptz, :id::uuid)', timeAndId(after));
      const rows = await query
        .orderBy({ 'v.created_at': 'DESC', 'v.id': 'DESC' })
        .limit(limit + 1)
        .getMany();
      const keyOf = (row: VisitRow): string => `${row.created_at.toISOString()} ${row.id}`;
      return pageOf(rows, limit, keyOf, visitView);
    },

    async 'tenant-config.visits.end'({ tenant_id, visit_id: id }, request) {
      await commitChange(db, request, memberScope(tenant_id), async (manager) => ({
        result: undefined,
        ...(await end(manager, { tenant_id, id }, 'ended')),
      }));
      const row = await db.manager.findOneBy(VisitEntity, { tenant_id, id });
      if (!row) throw new StrataError('not_found', 'The tenant has no such visit.');
      return visitView(row);
    },

    async 'tenant-config.visits.expire'({ tenant_id, visit_id: id }, request) {
      await commitChange(db, request, memberScope(tenant_id), async (manager) => ({
        result: undefined,
        ...(await end(manager, { tenant_id, id }, 'time')),
      }));
      return null;
    },

    'tenant-config.visits.resolve': ({ tenant_id, user_id }) =>
      readSnapshot(db, memberScope(tenant_id), async (manager) => {
        const visit = await openVisit(manager, tenant_id, user_id);
        const tenant = visit && (await manager.findOneBy(TenantEntity, { id: tenant_id }));
        if (!visit || !tenant) return null;
        return {
          id: visit.id,
          session_id: visit.session_id,
          until: visit.until.toISOString(),
          tenant_name: tenant.name,
          tenant_status: tenant.status,
          sign_in_policy: tenant.sign_in_policy,
        };
      }),
  }) satisfies Handlers;
