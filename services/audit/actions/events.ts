/** Recording events, for the relay of each node with a database; their list, for administrators; and everybody's own. */
import type { DataSource, SelectQueryBuilder } from 'typeorm';
import { seesPlatform } from '../../../shared/access.ts';
import type { Handlers } from '../../../shared/cluster/request.ts';
import { decodeCursor, defaultLimit, readPage } from '../../../shared/documents/paging.ts';
import { invalid } from '../../../shared/errors.ts';
import { momentOf } from '../../../shared/schema/moment.ts';
import { platformChain } from '../rules/chain.ts';
import { visibleTenant } from '../rules/visible-tenant.ts';
import { EventEntity, eventFrom, type EventRow } from '../schema.ts';
import { appendEvents } from '../stores/chains.ts';

/** The moment that a parameter names. Throws 422 for a date that does not exist. */
function momentIn(parameter: string, text: string): Date {
  const moment = momentOf(text);
  if (!moment) throw invalid([{ path: `/${parameter}`, message: 'is not a timestamp' }]);
  return moment;
}

/** Their target is the account that they are about, unless it is a provider. In the words of the index on them. */
const isOfSignIn = "e.action LIKE 'auth.%'";

/** Where a page ends. The order of the list is total: two events of one moment are told apart by chain and number. */
const sortKeyOf = (row: EventRow): string =>
  `${row.occurred_at.toISOString()} ${row.chain} ${row.seq}`;

/** Its parts, for a query. */
function positionIn(key: string) {
  const [time, chain, seq] = key.split(' ');
  return { time, chain, seq: Number(seq) };
}

/** The events after a sort key, by time. */
function inOrder(
  query: SelectQueryBuilder<EventRow>,
  order: 'asc' | 'desc',
  key: string | undefined,
): SelectQueryBuilder<EventRow> {
  if (key !== undefined) {
    const isAfter = order === 'asc' ? '>' : '<';
    query.andWhere(
      `(e.occurred_at, e.chain, e.seq) ${isAfter} (:time, :chain, :seq)`,
      positionIn(key),
    );
  }
  const direction = order === 'asc' ? 'ASC' : 'DESC';
  return query.orderBy({
    'e.occurred_at': direction,
    'e.chain': direction,
    'e.seq': direction,
  });
}

export const eventActions = (db: DataSource) =>
  ({
    'audit.append': async ({ body: events }) => ({
      recorded: await db.transaction((manager) => appendEvents(manager, events)),
    }),

    async 'audit.events.list'(params, { caller }) {
      const { actor, action, since, until, order = 'asc', limit = defaultLimit } = params;
      const tenant = visibleTenant(caller, params.tenant_id);
      const filtered = () => {
        const query = db.manager.createQueryBuilder(EventEntity, 'e').where('true');
        if (tenant !== undefined) query.andWhere('e.chain = :tenant', { tenant });
        // The platform's events tell of private global entries, their values included.
        if (tenant === undefined && !seesPlatform(caller))
          query.andWhere('e.chain <> :platform', { platform: platformChain });
        if (actor !== undefined) query.andWhere('e.actor_id = :actor', { actor });
        if (action !== undefined) query.andWhere('e.action = :action', { action });
        if (since !== undefined)
          query.andWhere('e.occurred_at >= :since', { since: momentIn('since', since) });
        if (until !== undefined)
          query.andWhere('e.occurred_at < :until', { until: momentIn('until', until) });
        return query;
      };
      const rowsAfter = (key: string | undefined) => {
        const query = filtered();
        return inOrder(query, order, key);
      };
      return readPage({
        limit,
        after: decodeCursor(params.cursor, 'chain'),
        rowsAfter,
        keyOf: sortKeyOf,
        itemOf: (row) => ({ ...eventFrom(row), seq: row.seq, hash: row.hash }),
      });
    },

    /** From all chains, because a sign-in into a tenant is in that tenant's. One index has just these events, in this order. */
    async 'audit.activity'({ limit = defaultLimit, cursor }, { caller }) {
      const rowsAfter = (key: string | undefined) => {
        const query = db.manager
          .createQueryBuilder(EventEntity, 'e')
          .where(isOfSignIn)
          .andWhere('e.target = :account', { account: caller.id });
        return inOrder(query, 'desc', key);
      };
      return readPage({
        limit,
        after: decodeCursor(cursor, 'chain'),
        rowsAfter,
        keyOf: sortKeyOf,
        itemOf(row) {
          const { target: _own, ...told } = eventFrom(row);
          return told;
        },
      });
    },
  }) satisfies Handlers;
