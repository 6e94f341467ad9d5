/** Chains in the database: appending under the lock on their heads, and reading them back to prove them. */
import { MoreThan, type DataSource, type EntityManager } from 'typeorm';
import type { AuditEventFacts } from '../../../shared/commits/commit.ts';
import {
  auditChainOf,
  checkLinks,
  eventHash,
  genesis,
  type Break,
  type Position,
} from '../rules/chain.ts';
import { ChainEntity, EventEntity, eventFrom, type ChainRow } from '../schema.ts';

/**
 * Gives the events their places in their chains, and returns how many were new: an event that is recorded already counts as done,
 * so that a delivery may be repeated. Under the lock on a chain's head its events get consecutive numbers.
 */
export async function appendEvents(
  manager: EntityManager,
  events: readonly AuditEventFacts[],
): Promise<number> {
  const heads = await lockHeads(manager, events);
  const recorded = await recordedIds(manager, events);
  const rows: unknown[] = [];
  for (const event of events) {
    if (recorded.has(event.id)) continue;
    recorded.add(event.id);
    const chain = auditChainOf(event);
    const previous = heads.get(chain)!;
    const seq = previous.seq + 1;
    const head = { chain, seq, hash: eventHash(event, seq, previous.hash) };
    heads.set(chain, head);
    rows.push({ ...event, ...head, actor_type: event.actor.type, actor_id: event.actor.id });
  }
  if (rows.length > 0) await insertEvents(manager, rows, [...heads.values()]);
  return rows.length;
}

/** In the order of their names, so that two appends can't each wait for a head that the other holds. */
async function lockHeads(
  manager: EntityManager,
  events: readonly AuditEventFacts[],
): Promise<Map<string, ChainRow>> {
  const names = [...new Set(events.map(auditChainOf))].sort();
  await manager.query(
    `INSERT INTO audit.chains
     SELECT name, 0, $2 FROM unnest($1::text[]) WITH ORDINALITY AS c (name, place) ORDER BY place
     ON CONFLICT DO NOTHING`,
    [names, genesis],
  );
  const heads = await manager.query<ChainRow[]>(
    'SELECT * FROM audit.chains WHERE chain = ANY($1) ORDER BY chain COLLATE "C" FOR UPDATE',
    [names],
  );
  return new Map(heads.map((head) => [head.chain, head]));
}

async function recordedIds(
  manager: EntityManager,
  events: readonly AuditEventFacts[],
): Promise<Set<string>> {
  const rows = await manager.query<{ id: string }[]>(
    'SELECT id FROM audit.events WHERE id = ANY($1)',
    [events.map(({ id }) => id)],
  );
  return new Set(rows.map(({ id }) => id));
}

/** Events and heads in one statement. */
async function insertEvents(
  manager: EntityManager,
  rows: readonly unknown[],
  heads: readonly ChainRow[],
): Promise<void> {
  await manager.query(
    `WITH heads AS (
       UPDATE audit.chains c SET seq = h.seq, hash = h.hash
       FROM json_to_recordset($2) AS h (chain text, seq int8, hash text) WHERE c.chain = h.chain
     )
     INSERT INTO audit.events
       (chain, seq, id, action, actor_type, actor_id, tenant_id, target, payload, request_id, occurred_at, hash)
     SELECT chain, seq, id, action, actor_type, actor_id, tenant_id, target, payload, request_id, occurred_at, hash
     FROM json_to_recordset($1) AS e
       (chain text, seq int8, id uuid, action text, actor_type text, actor_id text, tenant_id uuid, target text,
        payload json, request_id text, occurred_at timestamptz, hash text)`,
    [JSON.stringify(rows), JSON.stringify(heads)],
  );
}

/** All chains that have events, by name. */
export async function chainNames(db: DataSource): Promise<string[]> {
  const heads = await db.manager.find(ChainEntity, { order: { chain: 'ASC' } });
  return heads.map(({ chain }) => chain);
}

/**
 * `events` is how many hold: all of them or, where the chain is broken, those of the batches before the break. `head` is the hash
 * of the last, null where the chain is empty or broken.
 */
interface Proof {
  readonly events: number;
  readonly head: string | null;
  readonly broken_at?: Break;
}

/** Events are read in batches, so that a long chain takes time and not memory. */
const batchSize = 5000;

/** Computes every hash of a chain again. Stops at the first link that does not hold. */
export async function verifyChain(db: DataSource, chain: string): Promise<Proof> {
  let reached: Position = { seq: 0, hash: genesis };
  for (;;) {
    const rows = await db.manager.find(EventEntity, {
      where: { chain, seq: MoreThan(reached.seq) },
      order: { seq: 'ASC' },
      take: batchSize,
    });
    const links = rows.map((row) => ({ seq: row.seq, hash: row.hash, event: eventFrom(row) }));
    const { broken, ...end } = checkLinks(links, reached);
    if (broken) return { events: reached.seq, head: null, broken_at: broken };
    reached = end;
    if (rows.length < batchSize) break;
  }

  const broken = breakAtHead(await db.manager.findOneBy(ChainEntity, { chain }), reached);
  if (broken) return { events: reached.seq, head: null, broken_at: broken };
  return { events: reached.seq, head: reached.seq === 0 ? null : reached.hash };
}

/** The head is written with the events, so one that is further on says that the newest events are gone. */
function breakAtHead(head: ChainRow | null, reached: Position): Break | undefined {
  if (head === null) return undefined;
  if (head.seq > reached.seq)
    return { seq: reached.seq + 1, id: null, problem: 'the newest events are missing' };
  if (head.seq === reached.seq && head.hash !== reached.hash)
    return { seq: reached.seq, id: null, problem: 'the head does not match the last event' };
  return undefined;
}
