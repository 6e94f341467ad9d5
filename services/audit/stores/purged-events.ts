/**
 * Purged events: a platform admin took past values of a document out of its history, so the events
 * that tell of them lose their changes. Each keeps its place, its other fields and its hash, which
 * can no longer be computed from it. An event of the same chain attests that hash, the previous one
 * it, and the hash of what is left: the chain still joins, and no one changes a purged event
 * without breaking it.
 */
import { randomUUID } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import { serviceCaller } from '../../../shared/access.ts';
import { auditFacts, type AuditEventFacts } from '../../../shared/commits/commit.ts';
import { purgedBy } from '../../../shared/contracts/history.ts';
import {
  eventHash,
  eventsPurgedAction,
  genesis,
  platformChain,
  purgedPayload,
  type Attested,
} from '../../../shared/security/audit-chain.ts';
import { eventFrom, type EventRow } from '../schema.ts';
import { appendEvents } from './chains.ts';

/** One attesting event names so many at most, and so many are in memory. */
const eventsAtOnce = 100;

/**
 * Purges what these events ask to have purged, and those of them that come after the purge that
 * concerns them, inside the transaction that recorded them.
 */
export async function notePurges(
  manager: EntityManager,
  events: readonly AuditEventFacts[],
): Promise<void> {
  const ofDocuments = events.filter(
    ({ action, tenant_id: tenantId }) => tenantId === null && action.startsWith('config.'),
  );
  if (ofDocuments.length === 0) return;
  const purges = ofDocuments.flatMap(({ action, target, payload }) => {
    const prefix = purgedBy(action);
    const { below } = payload as { below?: unknown };
    return prefix === undefined ? [] : [{ prefix, target, below }];
  });
  if (purges.length > 0) {
    await manager.query(
      `INSERT INTO audit.purges AS p (prefix, target, below)
       SELECT prefix, target, max(below) FROM json_to_recordset($1) AS n (prefix text, target text, below int8)
       GROUP BY prefix, target
       ON CONFLICT (prefix, target) DO UPDATE SET below = greatest(p.below, excluded.below)`,
      [JSON.stringify(purges)],
    );
    const targets = purges.map(({ target }) => target);
    await purgeThose(manager, 'e.target = ANY ($2)', targets);
  }
  const ids = ofDocuments.map(({ id }) => id);
  await purgeThose(manager, 'e.id = ANY ($2::uuid[])', ids);
}

/** `which` is a condition in SQL on the event `e`, with its values as `$2`. */
async function purgeThose(
  manager: EntityManager,
  which: string,
  values: readonly unknown[],
): Promise<void> {
  let after = 0;
  for (;;) {
    const found = await manager.query<(EventRow & { previous: string })[]>(
      `SELECT e.*, COALESCE(b.hash, c.hash, $5) AS previous
       FROM audit.events e JOIN audit.purges p ON p.target = e.target AND starts_with(e.action, p.prefix)
       LEFT JOIN audit.events b ON b.chain = e.chain AND b.seq = e.seq - 1
       LEFT JOIN audit.cuts c ON c.chain = e.chain AND c.seq = e.seq - 1
       WHERE e.chain = $1 AND ${which} AND e.seq > $3 AND e.payload->'changes' IS NOT NULL
         AND (e.payload->>'revision')::int8 <= p.below
       ORDER BY e.seq LIMIT $4`,
      [platformChain, values, after, eventsAtOnce, genesis],
    );
    for (const [target, rows] of Map.groupBy(found, (row) => row.target))
      await purge(manager, target, rows);
    if (found.length < eventsAtOnce) return;
    after = found.at(-1)!.seq;
  }
}

async function purge(
  manager: EntityManager,
  target: string | null,
  rows: readonly (EventRow & { readonly previous: string })[],
): Promise<void> {
  const links: Record<string, Attested> = {};
  const left = rows.map((row) => {
    const { seq, hash, previous } = row;
    const recorded = eventFrom(row);
    const event = { ...recorded, payload: purgedPayload(row.payload as object) };
    // One that is not what was recorded breaks the chain, after its purge as before it.
    if (eventHash(recorded, seq, previous) === hash)
      links[seq] = { hash, previous, left: eventHash(event, seq, previous) };
    return { seq, payload: event.payload };
  });
  const draft = { action: eventsPurgedAction, tenant_id: null, target, payload: { links } };
  const proof = auditFacts(draft, { caller: serviceCaller('audit'), requestId: randomUUID() });
  await appendEvents(manager, [proof]);
  await manager.query(
    `INSERT INTO audit.purged_links (seq, proof_seq)
     SELECT unnest($1::int8[]), (SELECT seq FROM audit.events WHERE id = $2)`,
    [Object.keys(links), proof.id],
  );
  await manager.query(`SELECT set_config('strata.purges_audit', 'on', true)`);
  await manager.query(
    `UPDATE audit.events e SET payload = n.payload
     FROM json_to_recordset($2) AS n (seq int8, payload json) WHERE e.chain = $1 AND e.seq = n.seq`,
    [platformChain, JSON.stringify(left)],
  );
  await manager.query(`SELECT set_config('strata.purges_audit', 'off', true)`);
}
