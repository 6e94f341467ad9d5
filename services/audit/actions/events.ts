/**
 * Recording events, for the relay of each node with a database; their list, for administrators; and
 * everybody's own.
 */
import type { DataSource, SelectQueryBuilder } from 'typeorm';
import { seesPlatform, type Caller } from '../../../shared/access.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import {
  idsByAddress,
  namesInRealms,
  platformRealm,
  realmOf,
} from '../../../shared/commits/actor-names.ts';
import type { AuditEventFacts } from '../../../shared/commits/commit.ts';
import {
  decodeCursor,
  defaultLimit,
  encodeCursor,
  readPage,
} from '../../../shared/documents/paging.ts';
import { momentOf } from '../../../shared/schema/moment.ts';
import { platformChain } from '../../../shared/security/audit-chain.ts';
import { hasPrefix, prefixesOf } from '../rules/action-prefixes.ts';
import { visibleTenant } from '../rules/visible-tenant.ts';
import { EventEntity, eventFrom, type EventRow } from '../schema.ts';
import { appendEvents } from '../stores/chains.ts';
import { noteDestinationChanges } from '../stores/destinations.ts';
import { noteErasures } from '../stores/erased-chains.ts';
import { noteMails } from '../stores/mail-notices.ts';
import { notePurges } from '../stores/purged-events.ts';

/**
 * Their target is the account that they are about, unless it is a provider. In the words of the
 * index on them.
 */
const isOfSignIn = "e.action LIKE 'auth.%'";

/**
 * Where a page ends. The order of the list is total: two events of one moment are told apart by
 * chain and number.
 */
const sortKeyOf = (row: EventRow): string =>
  `${row.occurred_at.toISOString()} ${row.chain} ${row.seq}`;

/** Its parts, for a query. */
function positionIn(key: string) {
  const [time, chain, seq] = key.split(' ');
  return { time, chain, seq: Number(seq) };
}

/** Events that a page with filters goes through for those that fit. */
const mostSearched = 100_000;

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

/** Those up to the event of a sort key, which is one of them. */
function upTo(
  query: SelectQueryBuilder<EventRow>,
  order: 'asc' | 'desc',
  key: string,
): SelectQueryBuilder<EventRow> {
  const { time, chain, seq } = positionIn(key);
  const isWithin = order === 'asc' ? '<=' : '>=';
  return query.andWhere(
    `(e.occurred_at, e.chain, e.seq) ${isWithin} (:lastTime, :lastChain, :lastSeq)`,
    { lastTime: time, lastChain: chain, lastSeq: seq },
  );
}

/**
 * The sort key of the event up to which one page looks for what fits: where nothing does, it would
 * go through all that there are. Undefined where there are fewer. An index alone answers it.
 */
async function endOfSearch(
  query: SelectQueryBuilder<EventRow>,
  order: 'asc' | 'desc',
  after: string | undefined,
  searched: number,
): Promise<string | undefined> {
  const last = await inOrder(query, order, after)
    .select(['e.occurred_at', 'e.chain', 'e.seq'])
    .offset(searched - 1)
    .limit(1)
    .getOne();
  return last ? sortKeyOf(last) : undefined;
}

/** An event, and in whose words its actor is named. */
type Item = AuditEventFacts & { readonly seq: number; readonly hash: string };

/**
 * The ids that the caller means by `actor`: an id, or the address of a person whom the caller's
 * realm knows. An address that the realm does not know is looked for like an id, so that it takes
 * as long and finds as little.
 */
async function actorsCalled(
  db: DataSource,
  actor: string,
  caller: Caller,
  tenant: string | undefined,
): Promise<string[]> {
  if (!actor.includes('@')) return [actor];
  const realm = seesPlatform(caller) ? platformRealm : tenant;
  const ids = realm === undefined ? [] : await idsByAddress(db.manager, realm, actor);
  return [actor, ...ids];
}

/**
 * Tenants read what they call people, the platform's administrators what people are called
 * everywhere.
 */
async function withNames(db: DataSource, items: readonly Item[], caller: Caller) {
  const readsPlatform = seesPlatform(caller);
  const wanted = items.flatMap(({ tenant_id: tenantId, actor: { id } }) => [
    { realm: realmOf(tenantId), id },
    ...(readsPlatform ? [{ realm: platformRealm, id }] : []),
  ]);
  const names = await namesInRealms(db.manager, wanted);
  return items.map((item) => {
    const { id } = item.actor;
    const known = readsPlatform ? names.of(platformRealm, id) : null;
    const name = known ?? names.of(realmOf(item.tenant_id), id);
    return { ...item, actor: { ...item.actor, name } };
  });
}

/** Something is to be done for what was appended. */
interface Wakers {
  readonly onErasure: () => void;
  readonly onMails: () => void;
  readonly onAppend: () => void;
}

export function eventActions(
  db: DataSource,
  { onErasure, onMails, onAppend }: Wakers,
  searched = mostSearched,
) {
  return {
    async 'audit.append'({ body: events }) {
      const { recorded, tells, erases } = await db.transaction(async (manager) => {
        const appended = await appendEvents(manager, events);
        await notePurges(manager, events);
        await noteDestinationChanges(manager, appended);
        // The record does not wait for the mail: the event is in the audit, also where nobody
        // could be told.
        const tells = await noteMails(manager, appended);
        return { recorded: appended.length, tells, erases: await noteErasures(manager, events) };
      });
      if (erases) onErasure();
      if (tells) onMails();
      onAppend();
      return { recorded };
    },

    async 'audit.events.list'(params, { caller }) {
      const { actor, action, target, since, until, order = 'asc', limit = defaultLimit } = params;
      const tenant = visibleTenant(caller, params.tenant_id);
      const named = actor === undefined ? [] : await actorsCalled(db, actor, caller, tenant);
      const after = decodeCursor(params.cursor, 'chain');
      const visible = () => {
        const query = db.manager.createQueryBuilder(EventEntity, 'e').where('true');
        if (tenant !== undefined) query.andWhere('e.chain = :tenant', { tenant });
        // The platform's events tell of private global entries, their values included.
        if (tenant === undefined && !seesPlatform(caller))
          query.andWhere('e.chain <> :platform', { platform: platformChain });
        if (since !== undefined)
          query.andWhere('e.occurred_at >= :since', { since: momentOf(since)! });
        if (until !== undefined)
          query.andWhere('e.occurred_at < :until', { until: momentOf(until)! });
        return query;
      };
      const isFiltered = [actor, action, target].some((each) => each !== undefined);
      const end = isFiltered ? await endOfSearch(visible(), order, after, searched) : undefined;
      const filtered = (key: string | undefined) => {
        const query = inOrder(visible(), order, key);
        if (actor !== undefined) query.andWhere('e.actor_id = ANY(:named)', { named });
        if (action !== undefined) query.andWhere(hasPrefix, { prefixes: prefixesOf(action) });
        if (target !== undefined) query.andWhere('e.target = :target', { target });
        return end === undefined ? query : upTo(query, order, end);
      };
      const { items, next_cursor: next } = await readPage({
        limit,
        after,
        rowsAfter: filtered,
        keyOf: sortKeyOf,
        itemOf: (row) => ({ ...eventFrom(row), seq: row.seq, hash: row.hash }),
      });
      const cursor = next ?? (end === undefined ? null : encodeCursor(end));
      return { items: await withNames(db, items, caller), next_cursor: cursor };
    },

    /**
     * From all chains, because a sign-in into a tenant is in that tenant's. One index has just
     * these events, in this order.
     */
    async 'audit.activity'({ limit = defaultLimit, cursor }, { caller }) {
      const rowsAfter = (key: string | undefined) => {
        const query = db.manager
          .createQueryBuilder(EventEntity, 'e')
          .where(isOfSignIn)
          .andWhere('e.target = :account', { account: caller.id });
        // Whoever speaks for the tenant's own provider learns nothing of other tenants.
        if (caller.confined_to !== undefined)
          query.andWhere('e.tenant_id = :tenant', { tenant: caller.confined_to });
        return inOrder(query, 'desc', key);
      };
      return readPage({
        limit,
        after: decodeCursor(cursor, 'chain'),
        rowsAfter,
        keyOf: sortKeyOf,
        itemOf(row) {
          const { target: _own, ...shown } = eventFrom(row);
          return shown;
        },
      });
    },
  } satisfies Handlers;
}
