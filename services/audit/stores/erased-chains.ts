/**
 * Chains of erased tenants: their events go, and the hash of each stays at its number. So the chain
 * still proves that it was, how long it was, and of whoever has one of its events elsewhere, that
 * it was this one. The end of an erasure is an event in the platform's chain, which says how many
 * there are and which is the last hash: nobody changes the hashes without breaking that.
 */
import { randomUUID } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import { serviceCaller } from '../../../shared/access.ts';
import { auditFacts, type AuditEventFacts } from '../../../shared/commits/commit.ts';
import { erasedAction } from '../../../shared/contracts/tenants.ts';
import {
  auditChainOf,
  platformChain,
  type Break,
  type Position,
} from '../../../shared/security/audit-chain.ts';
import { appendEvents, chainStart } from './chains.ts';
import { forgetDestinations } from './destinations.ts';

/** The event that ends the erasure of a chain, whose id is its target. */
const chainErasedAction = 'audit.chain_erased';

const eventsAtOnce = 1000;

/**
 * Notes which chains these events have erased, inside the transaction that records them. What comes
 * for a chain after that is erased as well. Answers whether there is something to erase.
 */
export async function noteErasures(
  manager: EntityManager,
  events: readonly AuditEventFacts[],
): Promise<boolean> {
  const isEnd = ({ action, tenant_id: tenantId }: AuditEventFacts): boolean =>
    action === erasedAction && tenantId === null;
  const ended = events.filter(isEnd).flatMap(({ target }) => target ?? []);
  const touched = [...new Set([...ended, ...events.map(auditChainOf)])];
  if (ended.length > 0) {
    await manager.query(
      'INSERT INTO audit.erased_chains (chain) SELECT DISTINCT unnest($1::text[]) ON CONFLICT DO NOTHING',
      [ended],
    );
    await forgetDestinations(manager, ended);
  }
  const [reopened] = await manager.query<[unknown[], number]>(
    'UPDATE audit.erased_chains SET erased_at = NULL WHERE chain = ANY ($1) RETURNING chain',
    [touched],
  );
  return reopened.length > 0;
}

/**
 * Erases a part of one chain inside the caller's transaction. Answers false where nothing is left
 * to erase of any.
 */
export async function eraseChunk(manager: EntityManager): Promise<boolean> {
  const [chain] = await manager.query<{ name: string }[]>(
    `SELECT chain AS name FROM audit.erased_chains WHERE erased_at IS NULL
     ORDER BY chain LIMIT 1 FOR UPDATE SKIP LOCKED`,
  );
  if (!chain) return false;
  const links = await manager.query<{ seq: number }[]>(
    `INSERT INTO audit.erased_links (chain, seq, hash)
     SELECT chain, seq, hash FROM audit.events WHERE chain = $1 ORDER BY seq LIMIT $2 RETURNING seq`,
    [chain.name, eventsAtOnce],
  );
  if (links.length === 0) await endErasure(manager, chain.name);
  else await removeKept(manager, chain.name, links[0]!.seq);
  return true;
}

/**
 * Removes the events from a number on of which the hash is kept. The trigger on the table lets this
 * transaction do it. Both tables are read from there: the hashes before it are of events that went.
 */
async function removeKept(manager: EntityManager, chain: string, from: number): Promise<void> {
  await manager.query(`SELECT set_config('strata.erases_audit', 'on', true)`);
  await manager.query(
    `DELETE FROM audit.events e USING audit.erased_links l
     WHERE e.chain = $1 AND e.seq >= $2 AND l.chain = $1 AND l.seq >= $2 AND l.seq = e.seq AND l.hash = e.hash`,
    [chain, from],
  );
}

async function endErasure(manager: EntityManager, chain: string): Promise<void> {
  const { seq, hash } = await lastErased(manager, chain);
  const draft = {
    action: chainErasedAction,
    tenant_id: null,
    target: chain,
    payload: { events: seq, head: hash },
  };
  const by = { caller: serviceCaller('audit'), requestId: randomUUID() };
  const event = auditFacts(draft, by);
  await appendEvents(manager, [event]);
  await manager.query(
    `UPDATE audit.erased_chains SET erased_at = clock_timestamp(),
       proof_seq = (SELECT seq FROM audit.events WHERE id = $2) WHERE chain = $1`,
    [chain, event.id],
  );
}

async function lastErased(manager: EntityManager, chain: string): Promise<Position> {
  const [last] = await manager.query<Position[]>(
    'SELECT seq, hash FROM audit.erased_links WHERE chain = $1 ORDER BY seq DESC LIMIT 1',
    [chain],
  );
  return last ?? chainStart;
}

export interface ErasedPart {
  /** The last hash that is kept: what follows is verified from there. */
  readonly position: Position;
  /** When the erasure ended (RFC 3339); absent while it continues. */
  readonly erased_at?: string;
  readonly broken?: Break;
}

interface ErasedRow {
  readonly erased_at: Date | null;
  readonly proof_seq: number | null;
  /** The number before the first that is missing. */
  readonly whole_until: number;
}

/**
 * What is kept of an erased chain, and whether it is what the platform's chain says of it; null for
 * any other chain.
 */
export async function readErased(
  manager: EntityManager,
  chain: string,
): Promise<ErasedPart | null> {
  const [row] = await manager.query<ErasedRow[]>(
    `SELECT erased_at, proof_seq, COALESCE((
       SELECT max(l.seq) FROM (
         SELECT seq, seq - row_number() OVER (ORDER BY seq) AS missing
         FROM audit.erased_links WHERE chain = c.chain
       ) AS l GROUP BY l.missing ORDER BY l.missing LIMIT 1), 0) AS whole_until
     FROM audit.erased_chains c WHERE chain = $1`,
    [chain],
  );
  if (!row) return null;
  const position = await lastErased(manager, chain);
  if (row.whole_until < position.seq) {
    const broken = { seq: row.whole_until + 1, id: null, problem: 'the hash is missing' };
    return { position, broken };
  }
  if (row.erased_at === null) return { position };
  const erasedAt = { position, erased_at: row.erased_at.toISOString() };
  if (await isAttested(manager, chain, position, row.proof_seq)) return erasedAt;
  const problem = "the hashes are not those that the platform's chain tells of";
  return { ...erasedAt, broken: { seq: position.seq, id: null, problem } };
}

async function isAttested(
  manager: EntityManager,
  chain: string,
  { seq, hash }: Position,
  proofSeq: number | null,
): Promise<boolean> {
  const [found] = await manager.query<unknown[]>(
    `SELECT FROM audit.events WHERE chain = $1 AND seq = $2 AND action = $3 AND target = $4
       AND payload->>'events' = $5 AND payload->>'head' = $6`,
    [platformChain, proofSeq, chainErasedAction, chain, String(seq), hash],
  );
  return found !== undefined;
}
