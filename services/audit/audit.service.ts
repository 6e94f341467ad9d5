/** audit: append-only events, chained by hash per tenant and for the platform; query, and proof of the chain. */
import type { ServiceSchema } from 'moleculer';
import { MoreThan, type DataSource, type EntityManager } from 'typeorm';
import { isPlatformAdmin, type Caller } from '../../shared/access.ts';
import type { Handlers } from '../../shared/cluster/request.ts';
import { serviceOf } from '../../shared/cluster/service.ts';
import { invalid, StrataError } from '../../shared/errors.ts';
import type { AuditEventFacts } from '../../shared/commits/commit.ts';
import { momentOf } from '../../shared/schema/moment.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../shared/documents/paging.ts';
import { chainOf, checkLinks, eventHash, genesis, type Break } from './rules/chain.ts';
import { ChainEntity, EventEntity, type ChainRow, type EventRow } from './schema.ts';

const factsOf = (row: EventRow): AuditEventFacts => ({
  id: row.id,
  action: row.action,
  actor: { type: row.actor_type as AuditEventFacts['actor']['type'], id: row.actor_id },
  tenant_id: row.tenant_id,
  target: row.target,
  payload: row.payload,
  request_id: row.request_id,
  occurred_at: row.occurred_at.toISOString(),
});

/** The tenant whose events the caller may see; undefined is all. Who administers a tenant sees that one. */
function visibleTenant(caller: Caller, asked: string | undefined): string | undefined {
  if (isPlatformAdmin(caller)) return asked;
  if (caller.tenant_id === null) throw new StrataError('tenant_mismatch');
  return caller.tenant_id;
}

function timeOf(name: string, text: string): Date {
  const moment = momentOf(text);
  if (!moment) throw invalid([{ path: `/${name}`, message: 'is not a timestamp' }]);
  return moment;
}

const verifyBatch = 5000;

export function auditService({ db }: { readonly db: DataSource }): ServiceSchema {
  /** Events of one chain get consecutive numbers under the lock on its head; heads are locked in one order, so that two appends can't wait for each other's. */
  async function append(
    manager: EntityManager,
    events: readonly AuditEventFacts[],
  ): Promise<number> {
    const names = [...new Set(events.map(chainOf))].sort();
    await manager.query(
      'INSERT INTO audit.chains SELECT name, 0, $2 FROM unnest($1::text[]) WITH ORDINALITY AS c (name, place) ORDER BY place ON CONFLICT DO NOTHING',
      [names, genesis],
    );
    const locked = await manager.query<ChainRow[]>(
      'SELECT * FROM audit.chains WHERE chain = ANY($1) ORDER BY chain COLLATE "C" FOR UPDATE',
      [names],
    );
    const heads = new Map(locked.map((head) => [head.chain, head]));
    const known = await manager.query<{ id: string }[]>(
      'SELECT id FROM audit.events WHERE id = ANY($1)',
      [events.map(({ id }) => id)],
    );
    const seen = new Set(known.map(({ id }) => id));
    const rows: unknown[] = [];
    for (const event of events) {
      if (seen.has(event.id)) continue;
      seen.add(event.id);
      const chain = chainOf(event);
      const { seq: last, hash: previous } = heads.get(chain)!;
      const head = { chain, seq: last + 1, hash: eventHash(event, last + 1, previous) };
      heads.set(chain, head);
      rows.push({ ...event, ...head, actor_type: event.actor.type, actor_id: event.actor.id });
    }
    if (rows.length === 0) return 0;
    await manager.query(
      `WITH heads AS (
         UPDATE audit.chains c SET seq = h.seq, hash = h.hash FROM json_to_recordset($2) AS h (chain text, seq int8, hash text) WHERE c.chain = h.chain
       )
       INSERT INTO audit.events (chain, seq, id, action, actor_type, actor_id, tenant_id, target, payload, request_id, occurred_at, hash)
       SELECT chain, seq, id, action, actor_type, actor_id, tenant_id, target, payload, request_id, occurred_at, hash
       FROM json_to_recordset($1) AS e (chain text, seq int8, id uuid, action text, actor_type text, actor_id text, tenant_id uuid, target text,
         payload json, request_id text, occurred_at timestamptz, hash text)`,
      [JSON.stringify(rows), JSON.stringify([...heads.values()])],
    );
    return rows.length;
  }

  async function verify(
    chain: string,
  ): Promise<{ events: number; head: string | null; broken_at?: Break }> {
    let place = { seq: 0, hash: genesis };
    for (;;) {
      const rows = await db.manager.find(EventEntity, {
        where: { chain, seq: MoreThan(place.seq) },
        order: { seq: 'ASC' },
        take: verifyBatch,
      });
      const { broken, ...end } = checkLinks(
        rows.map((row) => ({ seq: row.seq, hash: row.hash, event: factsOf(row) })),
        place,
      );
      if (broken) return { events: place.seq, head: null, broken_at: broken };
      place = end;
      if (rows.length < verifyBatch) break;
    }
    // The head is written with the events, so one that is further says that the newest events are gone.
    const head = await db.manager.findOneBy(ChainEntity, { chain });
    if (head && head.seq > place.seq)
      return {
        events: place.seq,
        head: null,
        broken_at: { seq: place.seq + 1, id: null, problem: 'the newest events are missing' },
      };
    if (head && head.seq === place.seq && head.hash !== place.hash)
      return {
        events: place.seq,
        head: null,
        broken_at: { seq: place.seq, id: null, problem: 'the head does not match the last event' },
      };
    return { events: place.seq, head: place.seq === 0 ? null : place.hash };
  }

  const handlers: Handlers = {
    'audit.append': async ({ body }) => ({
      recorded: await db.transaction((manager) => append(manager, body as AuditEventFacts[])),
    }),

    async 'audit.events.list'(
      { tenant_id: asked, actor, action, since, until, limit = defaultLimit, cursor },
      { caller },
    ) {
      const tenant = visibleTenant(caller, asked);
      const [time, chain, seq] = decodeCursor(cursor, 'chain')?.split(' ') ?? [];
      const query = db.manager.createQueryBuilder(EventEntity, 'e').where('true');
      if (tenant !== undefined) query.andWhere('e.chain = :tenant', { tenant });
      if (actor !== undefined) query.andWhere('e.actor_id = :actor', { actor });
      if (action !== undefined) query.andWhere('e.action = :action', { action });
      if (since !== undefined)
        query.andWhere('e.occurred_at >= :since', { since: timeOf('since', since) });
      if (until !== undefined)
        query.andWhere('e.occurred_at < :until', { until: timeOf('until', until) });
      if (seq !== undefined)
        query.andWhere('(e.occurred_at, e.chain, e.seq) > (:time, :chain, :seq)', {
          time,
          chain,
          seq: Number(seq),
        });
      const rows = await query
        .orderBy({ 'e.occurred_at': 'ASC', 'e.chain': 'ASC', 'e.seq': 'ASC' })
        .limit(limit + 1)
        .getMany();
      return pageOf(
        rows,
        limit,
        (row) => `${row.occurred_at.toISOString()} ${row.chain} ${row.seq}`,
        (row) => ({ ...factsOf(row), seq: row.seq, hash: row.hash }),
      );
    },

    async 'audit.verify'({ tenant_id: asked }, { caller }) {
      const tenant = visibleTenant(caller, asked);
      const names =
        tenant !== undefined
          ? [tenant]
          : (await db.manager.find(ChainEntity, { order: { chain: 'ASC' } })).map(
              ({ chain }) => chain,
            );
      const chains = [];
      for (const chain of names)
        chains.push({ tenant_id: chain === 'platform' ? null : chain, ...(await verify(chain)) });
      return { valid: chains.every((chain) => !('broken_at' in chain)), chains };
    },
  };
  return serviceOf('audit', handlers);
}
