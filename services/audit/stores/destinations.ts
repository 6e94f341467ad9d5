/**
 * How far each event destination has come. The row is the queue: what is to be sent is whatever the
 * chain has beyond the cursor, so nothing is queued for a destination, and nothing is lost for as
 * long as the audit has it.
 *
 * | Part | Protects against | Degrades to |
 * |---|---|---|
 * | the cursor moves after 2xx only, by whoever holds the lease | losing events with a receiver, a node or an answer | events that are sent twice |
 * | a claim puts `due_at` into the future | two nodes sending to one destination | another node takes over after `claimSeconds` |
 * | what was sent by a claim that had ended moves the cursor back | a batch that comes late, in the place of newer ones | events that are sent twice |
 * | the append raises `head` in its own transaction | a wake-up that is lost | |
 * | what fails has places of its own | destinations that hang taking the turns of others | those that fail wait for each other |
 */
import { randomUUID } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import type { AuditEventFacts } from '../../../shared/commits/commit.ts';
import {
  destinationDefaults,
  destinationsAuditName,
  type EventDestinations,
} from '../../../shared/contracts/event-destinations.ts';
import { runAlone, type Statement } from '../../../shared/database/prepared-statements.ts';
import { auditChainOf } from '../../../shared/security/audit-chain.ts';
import { DestinationEntity, type DestinationRow } from '../schema.ts';
import { lockSigning } from './checkpoints.ts';

/** Longer than a send takes with what belongs to it. */
const claimSeconds = 90;

/** Of a destination that may be sent something. */
const isBehind = '(head > searched OR checkpoint_head > checkpoint_sent) AND stopped IS NULL';

export type Claim = DestinationRow & { readonly lease: string };

/** Those of this release: what a prepared statement returns must not change with the table. */
const columns = Object.keys(DestinationEntity.options.columns).map((name) => `d.${name}`);

const claim: Statement = {
  name: 'audit_claim_destinations',
  text: `UPDATE audit.destinations d
     SET lease = $1, due_at = clock_timestamp() + make_interval(secs => ${claimSeconds})
     FROM (
       SELECT chain, name FROM audit.destinations
       WHERE ${isBehind} AND due_at <= clock_timestamp() AND (failures > 0) = $3
         AND chain <> ALL($4::text[])
       ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
     ) AS due
     WHERE d.chain = due.chain AND d.name = due.name RETURNING ${columns.join(', ')}`,
};

/**
 * Claims up to `most` destinations that are due, those that have waited longest first: of those
 * whose last attempt failed, or of the others. Chains of `except` are left out.
 */
export async function claimDestinations(
  db: DataSource,
  most: number,
  which: 'failing' | 'well',
  except: readonly string[],
): Promise<Claim[]> {
  if (most <= 0) return [];
  return runAlone<Claim>(db, claim, [randomUUID(), most, which === 'failing', except]);
}

/** What a claim comes to. What is not named stays as it is. */
export type Ended = Partial<
  Pick<
    DestinationRow,
    | 'seq'
    | 'searched'
    | 'failures'
    | 'most_events'
    | 'until_seq'
    | 'too_large_seq'
    | 'checkpoint_sent'
    | 'stopped'
    | 'status'
    | 'error'
  >
> & {
  /** Until the next attempt. */
  readonly wait_ms: number;
  readonly isDelivered?: true;
};

/**
 * Ends a claim. Resolves to false where it had ended already: the document was written, the cursor
 * moved back, or the claim is another node's by now.
 */
export async function endClaim(
  manager: EntityManager,
  { chain, name, lease }: Claim,
  { wait_ms: waitMs, isDelivered, ...changes }: Ended,
): Promise<boolean> {
  const columns = Object.entries(changes);
  const assigned = columns.map(([column], index) => `${column} = $${index + 5}, `).join('');
  const [, ended] = await manager.query<[unknown[], number]>(
    `UPDATE audit.destinations SET ${assigned} lease = NULL,
       ${isDelivered ? 'delivered_at = clock_timestamp(),' : ''}
       due_at = clock_timestamp() + make_interval(secs => $4::float8 / 1000)
     WHERE chain = $1 AND name = $2 AND lease = $3`,
    [chain, name, lease, waitMs, ...columns.map(([, value]) => value)],
  );
  return ended > 0;
}

const documentEvents = `config.${destinationsAuditName}.`;

/** Notes whose event_destinations these events have written, inside the transaction that records them. */
export async function noteDestinationChanges(
  manager: EntityManager,
  events: readonly AuditEventFacts[],
): Promise<void> {
  const written = events.filter(({ action }) => action.startsWith(documentEvents));
  if (written.length === 0) return;
  await manager.query(
    `INSERT INTO audit.destination_changes AS c (chain, first_seq, seq, retry_at)
     SELECT chain, min(seq), max(seq), clock_timestamp() FROM audit.events
     WHERE chain = ANY($1) AND id = ANY($2) GROUP BY chain
     ON CONFLICT (chain) DO UPDATE SET seq = greatest(c.seq, excluded.seq), retry_at = excluded.retry_at`,
    [[...new Set(written.map(auditChainOf))], written.map(({ id }) => id)],
  );
}

/** Of a document, which may have been written several times since it was followed. */
export interface DestinationChange {
  readonly chain: string;
  /** The number of the first event that tells of it. A destination that is new begins there. */
  readonly first_seq: number;
  readonly seq: number;
}

export const destinationChanges = (db: DataSource, most: number): Promise<DestinationChange[]> =>
  runAlone(
    db,
    {
      name: 'audit_destination_changes_due',
      text: `SELECT chain, coalesce(first_seq, seq) AS first_seq, seq FROM audit.destination_changes
     WHERE retry_at <= clock_timestamp() ORDER BY retry_at LIMIT $1`,
    },
    [most],
  );

/** Leaves a change for later, so that it holds up no other. */
export const postponeChange = (
  manager: EntityManager,
  { chain }: DestinationChange,
  seconds: number,
): Promise<unknown> =>
  manager.query(
    `UPDATE audit.destination_changes SET retry_at = clock_timestamp() + make_interval(secs => $2)
     WHERE chain = $1`,
    [chain, seconds],
  );

/**
 * Follows a document that was written: cursors of new destinations, none of those that are gone, and
 * the others are tried again as the document says now. No event is appended to the chain meanwhile.
 */
export async function followDocument(
  manager: EntityManager,
  { chain, first_seq: firstSeq, seq }: DestinationChange,
  { destinations, revision }: { destinations: EventDestinations; revision: number },
): Promise<void> {
  // So that a checkpoint is either made before, or finds the destination there.
  if (Object.values(destinations).some(({ checkpoints }) => checkpoints))
    await lockSigning(manager);
  const [head] = await manager.query<{ seq: number }[]>(
    'SELECT seq FROM audit.chains WHERE chain = $1 FOR UPDATE',
    [chain],
  );
  const all = Object.entries(destinations).map(([name, destination]) => ({
    name,
    target: URL.parse(destination.url)?.origin ?? 'not a URL',
    max_seconds: destination.batch?.max_seconds ?? destinationDefaults.max_seconds,
    stopped: destination.paused ? 'paused' : null,
    checkpoints: destination.checkpoints === true,
    begin: Math.min(destination.from_seq ?? firstSeq, (head?.seq ?? 0) + 1) - 1,
  }));
  await manager.query(
    'DELETE FROM audit.destinations WHERE chain = $1 AND name <> ALL($2::text[])',
    [chain, all.map(({ name }) => name)],
  );
  await manager.query(
    `INSERT INTO audit.destinations AS d
       (chain, name, revision, target, max_seconds, stopped, seq, searched, head, due_at,
        checkpoints, checkpoint_sent, checkpoint_head)
     SELECT $1, name, $2, target, max_seconds, stopped, "begin", "begin", $3, clock_timestamp(),
       checkpoints, made.number, made.number
     FROM json_to_recordset($4) AS n (name text, target text, max_seconds int, stopped text, "begin" int8, checkpoints boolean),
       (SELECT coalesce(max(number), 0) AS number FROM audit.checkpoints) AS made
     ON CONFLICT (chain, name) DO UPDATE SET
       checkpoints = excluded.checkpoints,
       (checkpoint_sent, checkpoint_head) = ROW (
         CASE WHEN d.checkpoints AND excluded.checkpoints THEN d.checkpoint_sent ELSE excluded.checkpoint_sent END,
         CASE WHEN d.checkpoints AND excluded.checkpoints THEN d.checkpoint_head ELSE excluded.checkpoint_head END),
       (revision, target, max_seconds, stopped, searched, due_at, lease, failures, most_events, until_seq, too_large_seq)
       = ROW (excluded.revision, excluded.target, excluded.max_seconds, excluded.stopped, d.seq, excluded.due_at,
         NULL, 0, NULL, NULL, NULL)
     WHERE d.revision < excluded.revision`,
    [chain, revision, head?.seq ?? 0, JSON.stringify(all)],
  );
  await manager.query('DELETE FROM audit.destination_changes WHERE chain = $1 AND seq = $2', [
    chain,
    seq,
  ]);
}

export async function forgetDestinations(
  manager: EntityManager,
  chains: readonly string[],
): Promise<void> {
  await manager.query('DELETE FROM audit.destinations WHERE chain = ANY($1)', [chains]);
  await manager.query('DELETE FROM audit.destination_changes WHERE chain = ANY($1)', [chains]);
}

export type DestinationProgress = DestinationRow & { readonly lag_seconds: number };

/** How old the first event is that a destination `d` has not got, and has not been found unwanted. */
const lag = `CASE WHEN d.head > d.searched THEN greatest(0, extract(epoch FROM clock_timestamp() - (
  SELECT e.occurred_at FROM audit.events e WHERE e.chain = d.chain AND e.seq > d.searched ORDER BY e.seq LIMIT 1
)))::float8 ELSE 0 END`;

export const destinationsOf = (
  manager: EntityManager,
  chain: string,
): Promise<DestinationProgress[]> =>
  manager.query(
    `SELECT d.*, coalesce(${lag}, 0) AS lag_seconds FROM audit.destinations d WHERE chain = $1 ORDER BY name`,
    [chain],
  );

const movedBack = (dueAt: string): string => `UPDATE audit.destinations SET
   seq = least(seq, $3), searched = least(seq, $3), replays = replays + 1,
   due_at = ${dueAt}, lease = NULL, failures = 0, most_events = NULL, until_seq = NULL, too_large_seq = NULL
 WHERE chain = $1 AND name = $2`;

/** Moves a cursor back, so that the event of this number is the next; false where it is not behind. */
export async function moveBack(
  manager: EntityManager,
  chain: string,
  name: string,
  fromSeq: number,
): Promise<boolean> {
  const back = `${movedBack('clock_timestamp()')} AND seq >= $3`;
  const [, moved] = await manager.query<[unknown[], number]>(back, [chain, name, fromSeq - 1]);
  return moved > 0;
}

/**
 * After a batch whose claim had ended while it was on its way: the receiver may have put it in the
 * place of whatever came from its first event on, also of a batch that another is sending now. That
 * one's claim ends as well, and nobody takes its place before it has been answered, so that of two
 * the last is not late again. Where the document was written meanwhile, it may name a receiver
 * elsewhere, which has none of it.
 */
export const sendAgain = (
  manager: EntityManager,
  { chain, name, seq, target }: Claim,
): Promise<unknown> =>
  manager.query(
    `${movedBack('CASE WHEN lease IS NULL THEN clock_timestamp() ELSE due_at END')} AND target = $4`,
    [chain, name, seq, target],
  );

/**
 * How far the destination that is furthest behind is behind, of those whose last attempt failed, and
 * of the others. Those that are paused, or say that they are gone, do not count.
 */
export async function longestLags(
  manager: EntityManager,
): Promise<{ readonly failing: number; readonly waiting: number }> {
  const [lags] = await manager.query<[{ failing: number; waiting: number }]>(
    `SELECT coalesce(max(lag) FILTER (WHERE failures > 0), 0) AS failing,
       coalesce(max(lag) FILTER (WHERE failures = 0), 0) AS waiting
     FROM (SELECT d.failures, ${lag} AS lag FROM audit.destinations d WHERE ${isBehind}) AS behind`,
  );
  return lags;
}
