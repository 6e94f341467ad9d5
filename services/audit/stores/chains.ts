/**
 * Chains in the database: appending under the lock on their heads, and reading them back to prove
 * them.
 */
import type { EntityManager } from 'typeorm';
import type { AuditEventFacts } from '../../../shared/commits/commit.ts';
import {
  auditChainOf,
  checkLinks,
  eventHash,
  eventsPurgedAction,
  genesis,
  platformChain,
  type Attested,
  type Break,
  type Position,
} from '../../../shared/security/audit-chain.ts';
import { CheckpointComparison } from '../../../shared/security/audit-checkpoint.ts';
import { ChainEntity, eventFrom, type ChainRow, type EventRow } from '../schema.ts';
import { checkpointsOf } from './checkpoints.ts';
import type { Cut } from './cuts.ts';

/**
 * Gives the events their places in their chains, and returns those that were new: an event that is
 * recorded already counts as done, so that a delivery may be repeated. Under the lock on a chain's
 * head its events get consecutive numbers.
 */
export async function appendEvents(
  manager: EntityManager,
  events: readonly AuditEventFacts[],
): Promise<AuditEventFacts[]> {
  const heads = await lockHeads(manager, events);
  const recorded = await recordedIds(manager, events);
  const rows: unknown[] = [];
  const appended: AuditEventFacts[] = [];
  for (const event of events) {
    if (recorded.has(event.id)) continue;
    recorded.add(event.id);
    const chain = auditChainOf(event);
    const previous = heads.get(chain)!;
    const seq = previous.seq + 1;
    const head = { chain, seq, hash: eventHash(event, seq, previous.hash) };
    heads.set(chain, head);
    appended.push(event);
    rows.push({ ...event, ...head, actor_type: event.actor.type, actor_id: event.actor.id });
  }
  if (rows.length > 0) await insertEvents(manager, rows, [...heads.values()]);
  return appended;
}

/**
 * In the order of their names, so that two appends can't each wait for a head that the other holds.
 */
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

/** Events, heads, and what is to be sent to destinations, in one statement. */
async function insertEvents(
  manager: EntityManager,
  rows: readonly unknown[],
  heads: readonly ChainRow[],
): Promise<void> {
  await manager.query(
    `WITH heads AS (
       UPDATE audit.chains c SET seq = h.seq, hash = h.hash
       FROM json_to_recordset($2) AS h (chain text, seq int8, hash text) WHERE c.chain = h.chain
     ), destinations AS (
       UPDATE audit.destinations d SET head = h.seq, due_at = CASE WHEN d.head > d.searched THEN d.due_at
         ELSE clock_timestamp() + make_interval(secs => d.max_seconds) END
       FROM json_to_recordset($2) AS h (chain text, seq int8, hash text) WHERE d.chain = h.chain
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

/**
 * Names of chains that have events, or have had some at a checkpoint, in order: at most `count`,
 * from a name on.
 */
export async function chainNames(
  manager: EntityManager,
  from: string,
  count: number,
): Promise<string[]> {
  const heads = await manager.query<Pick<ChainRow, 'chain'>[]>(
    `WITH RECURSIVE signed AS (
       SELECT (SELECT min(chain) FROM audit.checkpoints WHERE chain >= $1) AS chain
       UNION ALL
       SELECT (SELECT min(k.chain) FROM audit.checkpoints k WHERE k.chain > s.chain)
       FROM signed s WHERE s.chain IS NOT NULL
     )
     (SELECT chain FROM audit.chains WHERE chain >= $1 ORDER BY chain LIMIT $2)
     UNION (SELECT chain FROM signed WHERE chain IS NOT NULL LIMIT $2)
     ORDER BY chain LIMIT $2`,
    [from, count],
  );
  return heads.map(({ chain }) => chain);
}

/**
 * `events` is how many hold. `head` is the hash of the last, null where the chain is empty, broken,
 * or not verified to its end.
 */
interface Proof {
  readonly events: number;
  readonly head: string | null;
  readonly broken_at?: Break;
  /** Where it was cut. */
  readonly cut?: Omit<Cut, 'chain'>;
  /** When its events were erased with their tenant, of which the hashes are left. */
  readonly erased_at?: string;
}
export interface VerifiedPart {
  readonly proof: Proof;
  /** From where to resume; absent where the chain is verified to its end or its first break. */
  readonly rest?: Position;
  /** Of the events that were read. */
  readonly bytes: number;
}

/** The position before the first event. */
export const chainStart: Position = { seq: 0, hash: genesis };

/** How much is verified in one go. */
export interface Extent {
  readonly mostBytes: number;
  /** After so many bytes of the chain; whether it may be worked on still. */
  readonly rest: (chain: string, bytes: number) => Promise<boolean>;
}

/**
 * Computes the hashes of a chain again, from a position on that is known to hold, until its end,
 * the first link that does not hold, or as far as it may, and compares it with its stored
 * checkpoints. `manager` reads one snapshot: otherwise an event that is appended meanwhile looks
 * like one whose predecessors were removed.
 */
export async function verifyChain(
  manager: EntityManager,
  chain: string,
  from: Position,
  { mostBytes, rest }: Extent,
): Promise<VerifiedPart> {
  const checkpoints = await checkpointsOf(manager, chain, from.seq);
  const comparison = new CheckpointComparison(checkpoints);
  comparison.begin(from);
  let reached = from;
  let bytes = 0;
  for (;;) {
    const page = await readLinks(manager, chain, reached.seq);
    bytes += page.bytes;
    const { broken, ...end } = checkLinks(page.links, reached);
    reached = end;
    const mayContinue = await rest(chain, page.bytes);
    if (broken) return { proof: brokenAt(reached.seq, broken), bytes };
    for (const link of page.links) {
      const rewritten = comparison.event(link);
      if (rewritten) return { proof: brokenAt(comparison.agreed, rewritten), bytes };
    }
    if (page.isLast) break;
    if (bytes >= mostBytes || !mayContinue)
      return { proof: { events: reached.seq, head: null }, rest: reached, bytes };
  }

  const head = await manager.findOneBy(ChainEntity, { chain });
  const broken = breakAtHead(head, reached) ?? comparison.end(reached.seq);
  if (broken) return { proof: brokenAt(reached.seq, broken), bytes };
  return { proof: { events: reached.seq, head: reached.seq === 0 ? null : reached.hash }, bytes };
}

/**
 * The hashes at some numbers of a chain, also where it was cut or erased; that of its beginning
 * where the event is missing, which no other hash joins.
 */
export async function hashesAt(
  manager: EntityManager,
  chain: string,
  numbers: readonly number[],
): Promise<(seq: number) => string> {
  const rows = await manager.query<Position[]>(
    `SELECT seq, hash FROM audit.events WHERE chain = $1 AND seq = ANY($2)
     UNION ALL SELECT seq, hash FROM audit.cuts WHERE chain = $1 AND seq = ANY($2)
     UNION ALL SELECT seq, hash FROM audit.erased_links WHERE chain = $1 AND seq = ANY($2)`,
    [chain, numbers],
  );
  const hashes = new Map(rows.map(({ seq, hash }) => [seq, hash]));
  return (seq) => hashes.get(seq) ?? genesis;
}

/** The same until an event, and no further than `mostBytes`: how far the links hold. */
export async function verifyUntil(
  manager: EntityManager,
  chain: string,
  from: Position,
  until: number,
  mostBytes: number,
): Promise<Position & { readonly broken?: Break }> {
  let reached = from;
  let bytes = 0;
  while (reached.seq < until && bytes < mostBytes) {
    const page = await readLinks(manager, chain, reached.seq);
    bytes += page.bytes;
    const links = page.links.filter(({ seq }) => seq <= until);
    const { broken, ...end } = checkLinks(links, reached);
    if (broken) return { ...end, broken };
    const isShort = page.isLast && end.seq < until;
    if (isShort)
      return { ...end, broken: { seq: end.seq + 1, id: null, problem: 'there is no such event' } };
    reached = end;
  }
  return reached;
}

const brokenAt = (events: number, broken: Break): Proof => ({
  events,
  head: null,
  broken_at: broken,
});

/**
 * What is in memory, and hashed without a pause, at a time: some milliseconds of work, between which
 * requests are answered. A page ends with the event that reaches the bytes.
 */
const pageEvents = 100;
const pageBytes = 128 * 1024;

/** What the chain tells of its purged events after one number and until another. */
async function readAttested(
  manager: EntityManager,
  chain: string,
  after: number,
  until: number,
): Promise<ReadonlyMap<number, Attested>> {
  if (chain !== platformChain) return new Map();
  const rows = await manager.query<(Attested & { seq: number })[]>(
    `SELECT l.seq, link->>'hash' AS hash, link->>'previous' AS previous, link->>'left' AS left
     FROM audit.purged_links l JOIN audit.events p ON p.chain = $1 AND p.seq = l.proof_seq
     CROSS JOIN LATERAL (SELECT p.payload->'links'->(l.seq::text) AS link) AS t
     WHERE l.seq > $2 AND l.seq <= $3 AND p.action = $4 AND l.seq < l.proof_seq`,
    [chain, after, until, eventsPurgedAction],
  );
  return new Map(rows.map(({ seq, ...attested }) => [seq, attested]));
}

/** What an event takes beside its payload, about. */
const bytesBeside = 500;

/** One event after the other, so that no more are looked at than the page has. */
async function readLinks(manager: EntityManager, chain: string, after: number) {
  const rows = await manager.query<(EventRow & { bytes: number; total: number })[]>(
    `WITH RECURSIVE page AS (
       (SELECT e.*, b.bytes, b.bytes AS total, 1 AS place
        FROM audit.events e, LATERAL (SELECT octet_length(e.payload::text) + $5::int AS bytes) AS b
        WHERE e.chain = $1 AND e.seq > $2 ORDER BY e.seq LIMIT 1)
       UNION ALL
       SELECT next.*, page.total + next.bytes, page.place + 1
       FROM page, LATERAL (
         SELECT e.*, octet_length(e.payload::text) + $5::int AS bytes FROM audit.events e
         WHERE e.chain = $1 AND e.seq > page.seq ORDER BY e.seq LIMIT 1
       ) AS next
       WHERE page.total < $4 AND page.place < $3
     )
     SELECT * FROM page ORDER BY seq`,
    [chain, after, pageEvents, pageBytes, bytesBeside],
  );
  const total = rows.at(-1)?.total ?? 0;
  const attested = await readAttested(manager, chain, after, rows.at(-1)?.seq ?? after);
  return {
    links: rows.map((row) => ({
      seq: row.seq,
      hash: row.hash,
      event: eventFrom(row),
      ...(attested.has(row.seq) && { attested: attested.get(row.seq)! }),
    })),
    bytes: total,
    isLast: rows.length < pageEvents && total < pageBytes,
  };
}

/**
 * The head is written with the events: one that is elsewhere says that events were removed or put
 * in behind its back.
 */
function breakAtHead(head: ChainRow | null, reached: Position): Break | undefined {
  const { seq, hash } = head ?? chainStart;
  if (seq > reached.seq)
    return { seq: reached.seq + 1, id: null, problem: 'the newest events are missing' };
  if (seq < reached.seq)
    return { seq: seq + 1, id: null, problem: 'the head of the chain is older than its events' };
  if (hash !== reached.hash)
    return { seq, id: null, problem: 'the head does not match the last event' };
  return undefined;
}
