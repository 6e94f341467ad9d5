/**
 * Events that people are still to be told of by mail: noted with the event, so that mails are sent
 * also after a kill. What was erased or purged meanwhile is in no mail.
 */
import { In, type DataSource, type EntityManager } from 'typeorm';
import type { AuditEventFacts } from '../../../shared/commits/commit.ts';
import { EventEntity, eventFrom } from '../schema.ts';

/** Of so many one look sees to. */
const mostAtOnce = 20;
/** Longer than the attempts of a mail take: another node tries again what a dead one claimed. */
const claimSeconds = 120;

/** Whether the event is of something powerful: `commit.ts` says so in its payload. */
export const hasPower = ({ payload }: AuditEventFacts): boolean =>
  typeof payload === 'object' && payload !== null && 'power' in payload;
export const isOfChangeSet = ({ action }: AuditEventFacts): boolean =>
  action.startsWith('changeset.');

/** Inside the transaction that recorded them. Resolves to whether there are any. */
export async function noteMails(
  manager: EntityManager,
  recorded: readonly AuditEventFacts[],
): Promise<boolean> {
  const ids = recorded
    .filter((event) => hasPower(event) || isOfChangeSet(event))
    .map(({ id }) => id);
  if (ids.length === 0) return false;
  await manager.query(
    `INSERT INTO audit.mail_notices (event_id, due_at)
     SELECT id, clock_timestamp() FROM unnest($1::uuid[]) AS id`,
    [ids],
  );
  return true;
}

export interface DueMails {
  readonly ids: readonly string[];
  /** Those that there still are, oldest first. */
  readonly events: readonly AuditEventFacts[];
}

/** Claims what is due. A node that dies loses its claims and nothing else. */
export async function claimMails(db: DataSource): Promise<DueMails> {
  const rows = await db.query<{ event_id: string }[]>(
    `WITH due AS (
       SELECT event_id FROM audit.mail_notices WHERE due_at <= clock_timestamp()
       ORDER BY due_at LIMIT ${mostAtOnce} FOR UPDATE SKIP LOCKED
     ),
     claimed AS (
       UPDATE audit.mail_notices n SET due_at = clock_timestamp() + interval '${claimSeconds} seconds'
       FROM due WHERE n.event_id = due.event_id RETURNING n.event_id
     )
     SELECT event_id FROM claimed`,
  );
  const ids = rows.map(({ event_id: id }) => id);
  if (ids.length === 0) return { ids, events: [] };
  const found = await db.manager.find(EventEntity, {
    where: { id: In(ids) },
    order: { occurred_at: 'ASC' },
  });
  return { ids, events: found.map(eventFrom) };
}

export const removeMails = (db: DataSource, { ids }: DueMails): Promise<unknown> =>
  db.query('DELETE FROM audit.mail_notices WHERE event_id = ANY ($1)', [ids]);
